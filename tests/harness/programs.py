"""Programs of Debian packages that some tests need."""

from __future__ import annotations

import os
import shutil
import unittest
from pathlib import Path

PLACES = os.pathsep.join((os.environ.get("PATH", ""), "/usr/sbin", "/usr/local/bin"))
"""Folders of programs. Those for administrators are not on the PATH of every account."""


def needed_program(name: str, *, package: str, places: str = PLACES) -> str:
    """Find a program of a Debian package. Where it is missing, skip the test and say why.

    A fresh machine need not have it. Under CI the skip is a failure (`tests/conftest.py`)."""
    path = shutil.which(name, path=places)
    if path is None or not Path(path).is_absolute():
        raise unittest.SkipTest(
            f"needs the program {name} (Debian package {package}), which is not on PATH"
        )
    return path
