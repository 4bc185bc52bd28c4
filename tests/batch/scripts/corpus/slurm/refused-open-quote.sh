#!/bin/bash
#SBATCH -J "open
./quote
