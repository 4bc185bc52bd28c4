#!/bin/bash
#$ -ac stage=1,run=2
./context
