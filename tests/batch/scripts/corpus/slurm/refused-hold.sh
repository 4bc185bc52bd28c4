#!/bin/bash
#SBATCH -H
./held
