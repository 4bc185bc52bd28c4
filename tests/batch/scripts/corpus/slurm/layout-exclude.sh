#!/bin/bash
#SBATCH -n 4 --exclude=alpha2 --contiguous --tmp=10G
srun ./avoiding
