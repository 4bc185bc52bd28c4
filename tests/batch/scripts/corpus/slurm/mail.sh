#!/bin/bash
#SBATCH --mail-type=END,FAIL --mail-user=ann@example.org
./mailing
