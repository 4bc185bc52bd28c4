"""Processes of ours: how they are started, and that they end with the one that starts them."""

from __future__ import annotations

import os
import sys


def program_of(module: str, *first: str) -> str:
    """Return Python that runs a module's `main` after these lines. What takes a third of a start is
    left out: the garbage collector is off while the module is imported, and structlog finds no
    `rich`, with which it would draw errors on terminals."""
    lines = (
        *first,
        "import gc, sys; gc.disable(); sys.modules['rich'] = None",
        f"from {module} import main",
        "gc.enable(); raise SystemExit(main())",
    )
    return "\n".join(lines)


def module_command(module: str, *words: str) -> list[str]:
    """`python -m MODULE WORDS...`, which gets TERM when this process is gone."""
    return [sys.executable, "-m", "koala.cli.local.child", str(os.getpid()), module, *words]
