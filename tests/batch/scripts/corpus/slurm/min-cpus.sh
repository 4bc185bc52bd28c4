#!/bin/bash
#SBATCH -n 2 --mincpus=4
./cores
