#!/bin/bash
#SBATCH --signal=B:USR1@60
./checkpointing
