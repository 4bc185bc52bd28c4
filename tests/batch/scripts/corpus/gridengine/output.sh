#!/bin/bash
#$ -o out.txt -e err.txt
./chatty
