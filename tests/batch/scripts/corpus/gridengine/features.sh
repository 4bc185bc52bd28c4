#!/bin/bash
#$ -l ib,rome=TRUE
./fabric
