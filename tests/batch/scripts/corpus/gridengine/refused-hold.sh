#!/bin/bash
#$ -h
./held
