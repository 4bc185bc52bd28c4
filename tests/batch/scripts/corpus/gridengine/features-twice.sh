#!/bin/bash
#$ -l ib
#$ -l ib=true -pe grid 2
./fabric
