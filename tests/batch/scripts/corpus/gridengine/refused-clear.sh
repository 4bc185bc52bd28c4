#!/bin/bash
#$ -pe grid 4
#$ -clear
./clear
