#!/bin/bash
#$ -l matlab=1
matlab -batch run
