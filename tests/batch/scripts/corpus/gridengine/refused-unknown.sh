#!/bin/bash
#$ -frobnicate 3
./unknown
