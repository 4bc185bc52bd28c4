"""Processes of ours that end with the one that starts them, however that ends."""

from __future__ import annotations

import os
import sys


def module_command(module: str, *words: str) -> list[str]:
    """`python -m MODULE WORDS...`, which gets TERM when this process is gone."""
    return [sys.executable, "-m", "koala.cli.local.child", str(os.getpid()), module, *words]
