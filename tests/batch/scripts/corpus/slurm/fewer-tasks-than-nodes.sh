#!/bin/bash
#SBATCH -N 2 -n 1
./one
