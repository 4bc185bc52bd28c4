#!/bin/bash
#$ -p -10 -R y -js 3 -A campaign
./polite
