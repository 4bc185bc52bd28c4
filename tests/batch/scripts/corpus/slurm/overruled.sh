#!/bin/bash
#SBATCH -n 8 -t 10
#SBATCH -n 2
#SBATCH --time=20
./overruled
