#!/bin/bash
#$ -soft
#$ -l ib=1
./soft
