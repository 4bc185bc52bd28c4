#!/bin/bash
#$ -j yes -o out.txt
./chatty
