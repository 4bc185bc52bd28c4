#!/bin/bash
#SBATCH -n +4 -c 02
./four
