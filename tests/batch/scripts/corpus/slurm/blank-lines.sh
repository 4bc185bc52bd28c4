#!/bin/bash

# a remark

#SBATCH -n 2

   # another
#SBATCH -c 2
./blank
