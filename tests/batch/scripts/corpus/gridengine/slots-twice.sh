#!/bin/bash
#$ -pe grid 2-4
#$ -pe grid 2
./two
