#!/bin/bash -l
#$ -N serial
#$ -l h_rt=600
./solve
