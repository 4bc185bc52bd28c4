#!/bin/bash
#SBATCH --frobnicate=3
./unknown
