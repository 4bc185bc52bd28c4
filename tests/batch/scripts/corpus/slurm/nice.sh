#!/bin/bash
#SBATCH --nice=100 --comment=campaign
./polite
