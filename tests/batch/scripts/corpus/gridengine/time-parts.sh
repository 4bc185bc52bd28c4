#!/bin/bash
#$ -l h_rt=:20:
./long
