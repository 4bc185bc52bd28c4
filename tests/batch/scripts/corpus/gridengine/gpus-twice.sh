#!/bin/bash
#$ -l gpu=1 -l gpu=2
./gpus
