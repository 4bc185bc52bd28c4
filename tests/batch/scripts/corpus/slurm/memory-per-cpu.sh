#!/bin/bash
#SBATCH -n 16 --mem-per-cpu=5G -t 3
srun ./fat
