#!/bin/bash
#SBATCH --gpus=2 --gpus-per-task=1
srun python train.py
