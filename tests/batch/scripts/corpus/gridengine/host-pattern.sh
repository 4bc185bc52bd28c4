#!/bin/bash
#$ -l arch='lx-*'
./here
