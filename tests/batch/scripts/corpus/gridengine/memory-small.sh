#!/bin/bash
#$ -l h_vmem=512m,s_vmem=500M
./lean
