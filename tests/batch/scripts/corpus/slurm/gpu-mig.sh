#!/bin/bash
#SBATCH --gres=gpu:1g.10gb:2
python infer.py
