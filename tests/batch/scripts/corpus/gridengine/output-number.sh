#!/bin/bash
#$ -o $JOB_NAME.o$JOB_ID
./chatty
