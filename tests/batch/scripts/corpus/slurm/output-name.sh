#!/bin/bash
#SBATCH -J wave
#SBATCH -o %x.log
./chatty
