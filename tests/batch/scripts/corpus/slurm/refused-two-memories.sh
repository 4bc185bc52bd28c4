#!/bin/bash
#SBATCH --mem=4G --mem-per-cpu=1G
./memory
