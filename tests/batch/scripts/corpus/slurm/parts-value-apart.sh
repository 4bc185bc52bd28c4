#!/bin/bash
#SBATCH -c
#SBATCH 2
#SBATCH hetjob
#SBATCH -n
#SBATCH 2
srun ./a &
srun --pack-group=1 ./b &
wait
