#!/bin/bash
#SBATCH -n 2
cat > inner.sh <<'END'
#SBATCH -n 8
END
