#!/bin/bash
#SBATCH --mem-per-gpu=2G
./memory
