#!/bin/bash
#SBATCH -N 2 --cores-per-socket=2
./cores
