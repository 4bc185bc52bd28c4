#!/bin/bash
#$ -S /bin/sh
./shell
