#!/bin/bash
#SBATCH --mem=2G
#SBATCH --mem=4GB
./lean
