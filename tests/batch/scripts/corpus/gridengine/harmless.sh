#!/bin/bash
#$ -now n -b n -shell y -sync n -w e
./harmless
