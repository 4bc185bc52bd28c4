#!/bin/bash
#SBATCH --output=out.txt --error=err.txt --open-mode=append
./chatty
