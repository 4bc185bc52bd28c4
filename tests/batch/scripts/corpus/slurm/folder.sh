#!/bin/bash
#SBATCH -D /tmp --input=/dev/null
pwd
