#!/bin/bash
#SBATCH --job-name="wave" --comment='two words' -n 3
./quoted
