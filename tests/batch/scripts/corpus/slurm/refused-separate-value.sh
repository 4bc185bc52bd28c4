#!/bin/bash
#SBATCH --nice 5
./polite
