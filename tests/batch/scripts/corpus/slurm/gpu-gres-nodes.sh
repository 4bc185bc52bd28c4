#!/bin/bash
#SBATCH -N 2 --gres=gpu:2 --ntasks-per-node=2
srun python train.py
