#!/bin/bash
#$ -t 1-10:2 -tc 2
./member $SGE_TASK_ID
