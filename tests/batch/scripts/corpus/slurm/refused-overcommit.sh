#!/bin/bash
#SBATCH -O -n 20
./crowd
