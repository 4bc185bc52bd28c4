#!/bin/bash
#$ -a 12312359
./later
