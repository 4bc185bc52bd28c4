#!/bin/bash
#SBATCH -n 4 --nodelist=alpha1
srun ./pinned
