#!/bin/bash
./late
exit 0
#$ -pe grid 3
