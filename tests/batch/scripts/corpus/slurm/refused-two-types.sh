#!/bin/bash
#SBATCH --gpus=a100:1,v100:1
./mixed
