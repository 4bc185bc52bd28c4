#!/bin/bash
#SBATCH --nice
#SBATCH -n 2
./polite
