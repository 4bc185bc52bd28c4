#!/bin/bash
#$ -r y
./again
