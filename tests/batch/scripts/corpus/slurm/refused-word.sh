#!/bin/bash
#SBATCH train
./word
