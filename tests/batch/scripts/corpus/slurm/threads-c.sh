#!/bin/bash
#SBATCH -c4 --mem 500
./threads
