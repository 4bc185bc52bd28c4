#!/bin/bash
#SBATCH --output=logs/%x-%j.out
./chatty
