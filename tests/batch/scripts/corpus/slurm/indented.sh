#!/bin/bash
  #SBATCH -n 4
./indented
