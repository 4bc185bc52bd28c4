#!/bin/bash
#SBATCH --comment="a # b" -n 3
./quoted
