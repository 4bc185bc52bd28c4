#!/bin/bash
#SBATCH -n 4
#SBATCH hetjob
#SBATCH -n 2
srun --het-group=0 ./a : --het-group=1 ./b
