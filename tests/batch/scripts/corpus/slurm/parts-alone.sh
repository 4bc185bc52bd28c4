#!/bin/bash
#SBATCH --ntasks=4 --exclusive
#SBATCH hetjob
#SBATCH --nodes=1
hostname
