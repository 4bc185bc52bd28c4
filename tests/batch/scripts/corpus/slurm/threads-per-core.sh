#!/bin/bash
#SBATCH -n 3 --threads-per-core=1
./cores
