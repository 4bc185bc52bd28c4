#!/bin/bash
#SBATCH -t 90s
./time
