#!/bin/bash
#SBATCH --ntas 4
./four
