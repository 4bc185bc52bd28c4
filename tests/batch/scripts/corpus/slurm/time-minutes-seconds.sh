#!/bin/bash
#SBATCH --time=12:30
./short
