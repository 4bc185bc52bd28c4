#!/bin/bash
#SBATCH --contiguous=yes
./switch
