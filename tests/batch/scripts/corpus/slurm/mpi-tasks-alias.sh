#!/bin/bash
#SBATCH --nodes=2 --tasks-per-node=4
#SBATCH -t 2:00
srun ./ocean
