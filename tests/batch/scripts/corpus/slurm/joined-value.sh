#!/bin/bash
#SBATCH -n
#SBATCH 4
./four
