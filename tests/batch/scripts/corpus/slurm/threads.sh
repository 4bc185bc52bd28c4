#!/bin/bash
#SBATCH --job-name=omp
#SBATCH --ntasks=1
#SBATCH --cpus-per-task=8
#SBATCH --mem=8G
#SBATCH --time=1:30:00
export OMP_NUM_THREADS=8
./threads
