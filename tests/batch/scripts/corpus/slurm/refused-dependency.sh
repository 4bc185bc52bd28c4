#!/bin/bash
#SBATCH -d afterok:1
./second
