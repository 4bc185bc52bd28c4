#!/bin/bash
#SBATCH -N 2 --ntasks-per-node=2 --nice=5
#SBATCH HetJob
#SBATCH packjob
srun ./a : ./b : ./c
