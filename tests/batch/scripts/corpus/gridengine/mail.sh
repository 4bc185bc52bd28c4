#!/bin/bash
#$ -m bea -M ann@example.org
./mailing
