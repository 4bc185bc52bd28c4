#!/usr/bin/env -S bash -l
#SBATCH --gpus=2
python train.py
