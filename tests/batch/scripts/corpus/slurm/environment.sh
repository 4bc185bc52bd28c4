#!/bin/bash
#SBATCH --export=ALL,MODEL=ocean,STEPS=20
./named
