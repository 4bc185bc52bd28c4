#!/bin/bash
#SBATCH -n 2 -B 1:4:1
srun ./bound
