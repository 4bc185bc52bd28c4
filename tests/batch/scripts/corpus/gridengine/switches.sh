#!/bin/bash
#$ -cwd -V
#$ -notify -r n
#$ -terse
./switches
