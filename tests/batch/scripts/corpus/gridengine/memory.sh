#!/bin/bash
#$ -l h_vmem=2.5G
#$ -pe grid 2
./fat
