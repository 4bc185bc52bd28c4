#!/bin/bash
#SBATCH -n 2
set -e
#SBATCH -n 8
./late
