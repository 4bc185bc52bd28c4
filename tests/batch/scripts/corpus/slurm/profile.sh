#!/bin/bash
#SBATCH --profile=none --acctg-freq=task=30 --wckey=a
./watched
