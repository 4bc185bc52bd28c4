#!/bin/bash
#$ -o localhost:/tmp/out.txt
./host
