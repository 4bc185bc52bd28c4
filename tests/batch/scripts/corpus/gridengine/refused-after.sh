#!/bin/bash
#$ -hold_jid 1
./second
