#!/bin/bash
#SBATCH -N 2 -n 4 --cores-per-socket=2
./cores
