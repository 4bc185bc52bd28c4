#!/bin/sh
# Count the words of two texts at a site: add them, take the program along, bring the counts back.
set -eu
here=$(cd "$(dirname "$0")" && pwd)
work=$(mktemp -d)
trap 'rm -r "$work"' EXIT
mkdir "$work/texts"
echo "one two three" > "$work/texts/a.txt"
echo "four five" > "$work/texts/b.txt"

koala files add "$work/texts" --as "words-$$"
job=$(koala submit - <<END
& (executable="$here/count.sh")
  (stage=yes)
  (inputFile="words-$$/")
  (outputs="counts/*.txt")
  (maxWallTime=5)
END
)
koala wait "$job"
koala outputs "$job" --to "$work/results"
cat "$work"/results/0/counts/*.txt
for text in a b; do
    koala files remove "words-$$/$text.txt"
done
