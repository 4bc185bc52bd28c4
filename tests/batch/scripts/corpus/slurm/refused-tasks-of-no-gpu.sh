#!/bin/bash
#SBATCH --ntasks-per-gpu=2
./tasks
