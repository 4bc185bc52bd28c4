#!/bin/bash
#$ -binding linear:2 -pe grid 2
./bound
