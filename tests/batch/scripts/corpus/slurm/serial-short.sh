#!/bin/bash
#SBATCH -J quick -t 5 -n 1
date
