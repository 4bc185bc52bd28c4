#!/bin/bash
#SBATCH --mem=2000000K
./lean
