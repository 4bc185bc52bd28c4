#!/bin/bash
#$ -l s_rt=00:30:00
./long
