#!/bin/bash
#$ -pe mpi 8
#SBATCH -n 2
./both
