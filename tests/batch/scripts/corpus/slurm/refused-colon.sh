#!/bin/bash
#SBATCH -n 4 : -n 2
./colon
