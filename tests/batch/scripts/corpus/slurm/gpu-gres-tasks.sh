#!/bin/bash
#SBATCH -n 16 --gres=gpu:1
srun python train.py
