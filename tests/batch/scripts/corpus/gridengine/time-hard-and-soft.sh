#!/bin/bash
#$ -l h_rt=7200
#$ -l s_rt=3600
./long
