#!/bin/bash
#$ -v HOME_OF_MINE
./environment
