#!/bin/bash
#SBATCH --comment=a\#b -n 2
./escaped
