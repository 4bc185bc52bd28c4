"""`python -m tests.fuzz`; see `campaign`, which is a module of its own for its processes' sake."""

import sys

from tests.fuzz.campaign import main

if __name__ == "__main__":
    sys.exit(main())
