#!/bin/bash
#$ -l h_rt=60
#$ -l h_rt=7200
./long
