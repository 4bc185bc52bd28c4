#!/bin/bash
#SBATCH --time=00:01:30
./short
