#!/bin/bash
#$ -l h_fsize=10G,h_stack=8M
./lean
