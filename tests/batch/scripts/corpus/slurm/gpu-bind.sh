#!/bin/bash
#SBATCH --gpus-per-node=1 -N 2 --gpu-bind=closest
srun ./bound
