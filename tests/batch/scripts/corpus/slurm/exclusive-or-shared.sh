#!/bin/bash
#SBATCH -s --exclusive -n 2
./alone
