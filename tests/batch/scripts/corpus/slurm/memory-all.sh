#!/bin/bash
#SBATCH -N 1 --mem=0 --exclusive
./fat
