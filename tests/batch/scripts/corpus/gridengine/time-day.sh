#!/bin/bash
#$ -l h_rt=24:0:0,gpu=1
./day
