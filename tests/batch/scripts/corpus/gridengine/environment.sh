#!/bin/bash
#$ -v MODEL=ocean,STEPS=20
#$ -v STEPS=30
./named
