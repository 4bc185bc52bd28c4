#!/bin/bash
#SBATCH -C [ib|rome] -N2
./fabric
