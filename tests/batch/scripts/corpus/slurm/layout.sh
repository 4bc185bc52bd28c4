#!/bin/bash
#SBATCH -n 8 --distribution=block:cyclic --hint=nomultithread --ntasks-per-core=1
srun ./bound
