#!/bin/bash
#$ -q batch
#$ -q b*
./queue
