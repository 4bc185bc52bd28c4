"""Entry point of `koala`, and of `python -m koala.cli` without an installed one."""

import sys


def main() -> int:
    """Run one command and return the exit status. Ctrl-C while modules are imported ends it without
    a traceback."""
    try:
        from koala.cli.main import main as run

        return run()
    except KeyboardInterrupt:
        return 130


if __name__ == "__main__":
    sys.exit(main())
