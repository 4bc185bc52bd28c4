#!/bin/bash
#SBATCH -Qn4
./four
