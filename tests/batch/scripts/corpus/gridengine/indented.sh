#!/bin/bash
 #$ -pe grid 8
#$   -pe   grid   2
./indented
