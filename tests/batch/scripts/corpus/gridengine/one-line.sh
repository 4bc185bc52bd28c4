#!/bin/bash
#$ -N wave -pe grid 2 -l h_rt=0:10:0 -j y # all in one line
./wave
