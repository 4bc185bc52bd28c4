#!/bin/bash
#SBATCH --nodelist=alpha[1-2]
./nodes
