#!/bin/bash
##$ -pe grid 8
# $ -pe grid 7
#$ -pe grid 3 # -l gpu=1
#$ -l gpu=1#2
./comments
