#!/bin/bash
#SBATCH -N 2 --switches=1@10:00 --spread-job
srun ./near
