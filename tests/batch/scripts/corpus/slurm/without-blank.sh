#!/bin/bash
#SBATCH-n 4
#SLURM -c 2
./old
