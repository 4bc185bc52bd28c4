#!/bin/bash
#SBATCH -t 120:30:15
./long
