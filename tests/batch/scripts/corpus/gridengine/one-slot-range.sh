#!/bin/bash
#$ -pe grid 2-2
./two
