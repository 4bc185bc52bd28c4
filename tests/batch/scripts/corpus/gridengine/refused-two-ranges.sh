#!/bin/bash
#$ -pe grid 2,4
./range
