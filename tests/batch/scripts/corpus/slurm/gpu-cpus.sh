#!/bin/bash
#SBATCH --gpus=2 --cpus-per-gpu=2 --mem-per-gpu=4G
python train.py
