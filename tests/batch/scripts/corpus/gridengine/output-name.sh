#!/bin/bash
#$ -N wave
#$ -o $JOB_NAME.log -j y
./chatty
