#!/bin/bash
#$ -i /etc/hosts
cat
