#!/bin/bash
#SBATCH --time=2-12
./long
