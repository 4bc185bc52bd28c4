#!/bin/bash
#$ -o logs/ -j y
./chatty
