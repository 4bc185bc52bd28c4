#!/bin/bash
#$ -soft -l mem_free=1G
#$ -hard
#$ -l ib=true
./soft
