#!/bin/sh
#SBATCH --get-user-env -n 2
module load openmpi
