#!/bin/bash
#$ -l h_vmem=3G -l h_vmem=2G
./lean
