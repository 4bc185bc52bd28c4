#!/bin/bash
#SBATCH -n 4
#SBATCH hetjob
#SBATCH -n 2 --array=1-3
srun ./a : ./b
