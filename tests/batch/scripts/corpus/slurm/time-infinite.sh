#!/bin/bash
#SBATCH -t infinite -n 2
./endless
