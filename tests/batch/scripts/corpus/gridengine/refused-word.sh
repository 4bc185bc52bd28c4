#!/bin/bash
#$ train
./word
