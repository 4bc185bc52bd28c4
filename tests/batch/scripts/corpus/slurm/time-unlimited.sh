#!/bin/bash
#SBATCH --time=UNLIMITED
./endless
