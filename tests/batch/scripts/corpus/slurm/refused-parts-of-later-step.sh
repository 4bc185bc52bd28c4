#!/bin/bash
#SBATCH -n 4
#SBATCH hetjob
#SBATCH -n 2
output=$(srun --het-group=1 hostname)
