"""Processes of ours: how they are started, and that they end with the one that starts them."""

from __future__ import annotations

import os
import sys


def program_of(module: str, *first: str) -> str:
    """Return Python that runs a module's `main` after these lines. The garbage collector is off
    while the module is imported, since that takes a part of a start."""
    lines = (
        *first,
        "import gc; gc.disable()",
        f"from {module} import main",
        "gc.enable(); raise SystemExit(main())",
    )
    return "\n".join(lines)


def module_command(module: str, *words: str) -> list[str]:
    """`python -m MODULE WORDS...`, which gets TERM when this process is gone."""
    return [sys.executable, "-m", "koala.local.child", str(os.getpid()), module, *words]
