#!/bin/bash
#SBATCH -N 2 --ntasks-per-node=2 --nice=5
#SBATCH HetJob --ntasks 3
#SBATCH packjob
srun ./a : ./b : ./c
