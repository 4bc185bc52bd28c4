#!/bin/bash
#SBATCH --array=0-9%2
./member $SLURM_ARRAY_TASK_ID
