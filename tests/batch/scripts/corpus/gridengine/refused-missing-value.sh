#!/bin/bash
#$ -N
#$ wave
./value
