#!/bin/bash
#$ -pe grid -4
./range
