#!/bin/sh
# Write a file of counts for each input file.
set -eu
mkdir counts
find -L "$KOALA_INPUTS" -type f | sort | while read -r text; do
    name=$(basename "$text")
    echo "$name: $(wc -w < "$text") words" > "counts/$name"
done
