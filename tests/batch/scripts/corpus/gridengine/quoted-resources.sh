#!/bin/bash
#$ -l "h_rt=60,gpu=1"
./quoted
