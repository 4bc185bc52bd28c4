#!/bin/bash
#SBATCH --cpus-per-t=2 --job=brief --out=brief.txt
./brief
