#!/bin/bash
##SBATCH -n 8
# SBATCH -n 7
#SBATCH -n 3 # -c 2
#SBATCH -c 2#3
./comments
