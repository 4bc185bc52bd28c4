#!/bin/bash
#$ -q batch
./queue
