#!/bin/bash
#$ -l h_rt=INFINITY
./endless
