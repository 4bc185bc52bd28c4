"""`python -m koala.cli.local.child PARENT MODULE WORDS...`: a daemon or agent that ends with its
parent.

A grid on one machine must not outlive the command that runs it, not even when that is killed: the
kernel then sends this process TERM, upon which a daemon or an agent ends in order (Linux only,
prctl(2)). Elsewhere, and where the call fails, the module runs all the same.
"""

from __future__ import annotations

import runpy
import signal
import sys

from koala.runtime.child_lifetime import end_with


def main() -> None:
    """Become the module, under its own arguments."""
    parent, module, *words = sys.argv[1:]
    end_with(int(parent), signal.SIGTERM)
    sys.argv = [module, *words]
    runpy.run_module(module, run_name="__main__", alter_sys=True)


if __name__ == "__main__":
    main()
