"""Run a daemon or agent that ends with its parent process.

    python -m koala.cli.local.child PARENT MODULE WORDS...

A grid on one machine must not outlive its command, even if that is killed. The kernel then sends
this process SIGTERM, and the daemon or agent shuts down in order (Linux only, prctl(2)). On other
systems, and if the call fails, the module runs without this protection.
"""

from __future__ import annotations

import runpy
import signal
import sys

from koala.runtime.child_lifetime import end_with


def main() -> None:
    """Run the module as `__main__`, with its own arguments."""
    parent, module, *words = sys.argv[1:]
    end_with(int(parent), signal.SIGTERM)
    sys.argv = [module, *words]
    runpy.run_module(module, run_name="__main__", alter_sys=True)


if __name__ == "__main__":
    main()
