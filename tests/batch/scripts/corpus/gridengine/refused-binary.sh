#!/bin/bash
#$ -b y
./binary
