#!/bin/bash
#SBATCH --no-requeue --parsable --quiet --verbose --ignore-pbs -k
#SBATCH -n 2
./harmless
