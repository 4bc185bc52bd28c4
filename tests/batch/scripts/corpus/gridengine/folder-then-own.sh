#!/bin/bash
#$ -wd /tmp
#$ -cwd
pwd
