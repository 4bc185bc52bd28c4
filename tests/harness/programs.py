"""Programs of Debian packages that some tests need."""

from __future__ import annotations

import os
import re
import shutil
import unittest
from collections.abc import Iterable
from pathlib import Path

PLACES = os.pathsep.join((os.environ.get("PATH", ""), "/usr/sbin", "/usr/local/bin"))
"""Folders of programs. Those for administrators are not on the PATH of every account."""
ASKED = re.compile(r"\(Debian: apt install ([^)]+)\)")
"""The end of the reason why a test is skipped that needs packages."""


def needed_program(name: str, *, package: str, places: str = PLACES) -> str:
    """Find a program of a Debian package. Where it is missing, skip the test and say why.

    A fresh machine need not have it. Under CI the skip is a failure (`tests/conftest.py`)."""
    path = shutil.which(name, path=places)
    if path is None or not Path(path).is_absolute():
        raise unittest.SkipTest(f"{name} is not on PATH (Debian: apt install {package})")
    return path


def packages_to_install(reasons: Iterable[str]) -> list[str]:
    """Return the packages that reasons of skipped tests name, each once."""
    return sorted(
        {name for reason in reasons for names in ASKED.findall(reason) for name in names.split()}
    )
