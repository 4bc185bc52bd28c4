#!/bin/bash
#SBATCH -A physics --qos=normal -p batch
./charged
