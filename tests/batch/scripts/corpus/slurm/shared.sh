#!/bin/bash
#SBATCH -s -n 2
./sharing
