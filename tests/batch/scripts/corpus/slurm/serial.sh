#!/bin/bash -l
#SBATCH --job-name=serial
#SBATCH --time=00:10:00

./solve input.nml
