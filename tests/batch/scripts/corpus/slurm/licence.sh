#!/bin/bash
#SBATCH -L matlab:2
matlab -batch run
