#!/bin/bash
#SBATCH -N2 --ntasks-per-node=4 -n 6
srun ./six
