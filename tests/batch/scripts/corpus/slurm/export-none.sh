#!/bin/bash
#SBATCH --export=NONE
#SBATCH -n 2
./clean
