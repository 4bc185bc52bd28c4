#!/bin/bash
#$ -pe grid 2 -masterq batch
./queue
