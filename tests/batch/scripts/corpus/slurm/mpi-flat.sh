#!/bin/bash
#SBATCH -n 16
#SBATCH -t 30
mpirun ./flat
