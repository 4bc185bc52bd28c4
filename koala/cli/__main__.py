"""`python -m koala.cli`: the command line without an installed `koala`."""

import sys

from koala.cli.main import main

if __name__ == "__main__":
    sys.exit(main())
