#!/bin/bash
#SBATCH -N 1-2 -n 4
./range
