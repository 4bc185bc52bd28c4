#!/bin/bash
#SBATCH --constraint=ib&rome
./fabric
