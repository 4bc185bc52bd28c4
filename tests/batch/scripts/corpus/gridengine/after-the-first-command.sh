#!/bin/bash
set -e
#$ -pe grid 4
#$ -l h_rt=01:00:00
./late
