#!/bin/bash
#$ -wd /tmp
pwd
