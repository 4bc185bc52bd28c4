#!/bin/bash
#SBATCH -N2 -n4 -c2 -t10 -Jwave # all in one line
srun ./wave
