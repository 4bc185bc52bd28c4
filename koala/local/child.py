"""Run a daemon or agent that ends with its parent process.

    python -m koala.local.child PARENT MODULE WORDS...

A grid on one machine must not outlive its command, even if that is killed. The kernel then sends
this process SIGTERM, and the daemon or agent shuts down in order (Linux only, prctl(2)). On other
systems, and if the call fails, the module runs without this protection.
"""

from __future__ import annotations

import gc
import signal
import sys
from importlib import import_module

from koala.common.runtime.child_lifetime import end_with


def main() -> int:
    """Run the `main` of the module with its own arguments, and return the exit status."""
    parent, module, *words = sys.argv[1:]
    end_with(int(parent), signal.SIGTERM)
    sys.argv = [module, *words]
    gc.disable()  # what is imported stays: to look for garbage in it takes a tenth of the start
    run = import_module(module).main
    gc.enable()
    return int(run())


if __name__ == "__main__":
    sys.exit(main())
