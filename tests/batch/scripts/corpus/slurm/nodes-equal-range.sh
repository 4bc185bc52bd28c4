#!/bin/bash
#SBATCH -N 2-2 -n 4
./four
