#!/bin/bash
#$ -o :/tmp/out.txt
./chatty
