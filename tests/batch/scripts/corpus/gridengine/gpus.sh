#!/usr/bin/env bash
#$ -l gpu=2
./gpus
