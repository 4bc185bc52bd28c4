#!/bin/bash
#$ -l slots=2
./two
