#!/bin/bash
#SBATCH --gres=none
./cpu-only
