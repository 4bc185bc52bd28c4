#!/bin/bash
#$ -o $HOME/out.txt -e ~/err.txt
./chatty
