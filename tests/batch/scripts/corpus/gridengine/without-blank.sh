#!/bin/bash
#$-pe grid 2
#$	-l	h_rt=60
./old
