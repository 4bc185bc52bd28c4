#!/bin/bash
cat <<'END' > inner.sh
#$ -pe grid 2
END
