#!/bin/bash
#SBATCH -N 1 -S 1 --exclusive
./cores
