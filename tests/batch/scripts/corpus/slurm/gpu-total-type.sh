#!/bin/bash
#SBATCH -G a100:1 -c 2
python train.py
