#!/bin/bash
#SBATCH -J coupled -t 10 -A physics --mem=2G -o coupled.out
#SBATCH -n 4 -p batch --exclude=alpha2
#SBATCH hetjob
#SBATCH -n 2 --cpus-per-task=3 -t 20
srun --het-group=0 ./ocean : --het-group=1 ./air
