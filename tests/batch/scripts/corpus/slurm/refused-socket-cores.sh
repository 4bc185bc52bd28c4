#!/bin/bash
#SBATCH -B 1:2
./cores
