#!/bin/bash
#SBATCH --gpus=2 --ntasks-per-gpu=2
srun python train.py
