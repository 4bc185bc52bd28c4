#!/bin/bash
#SBATCH -t 1-06:30
./long
