#!/bin/bash
#SBATCH --gpus=0 -n 2
./cpu-only
