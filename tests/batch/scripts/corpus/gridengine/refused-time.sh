#!/bin/bash
#$ -l h_rt=1:00
./time
