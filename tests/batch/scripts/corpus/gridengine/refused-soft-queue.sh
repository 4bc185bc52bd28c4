#!/bin/bash
#$ -soft -q batch
./queue
