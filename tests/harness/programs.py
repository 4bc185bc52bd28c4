"""Programs that some tests need, as far as this machine has them: those of Debian packages, and
interpreters that compute nodes may have."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
import unittest
from collections.abc import Iterable
from functools import cache
from pathlib import Path

PLACES = os.pathsep.join((os.environ.get("PATH", ""), "/usr/sbin", "/usr/local/bin"))
"""Folders of programs. Those for administrators are not on the PATH of every account."""
ASKED = re.compile(r"\(Debian: apt install ([^)]+)\)")
"""The end of the reason why a test is skipped that needs packages."""
PYTHONS = tuple(f"python3.{minor}" for minor in range(6, 14))
PYTHON_PATHS = "KOALA_TEST_PYTHONS"


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


@cache
def interpreters() -> dict[str, str]:
    """Find interpreters by their names: those of the variable KOALA_TEST_PYTHONS (paths, as in
    PATH) or else of PATH, and always our own."""
    given = os.environ.get(PYTHON_PATHS)
    paths = given.split(os.pathsep) if given else [shutil.which(name) or "" for name in PYTHONS]
    asked = [(path, _ask(path)) for path in paths if path]  # all at once
    found = dict(_identify(path, asking) for path, asking in asked)
    found.pop("", None)
    return found | {f"python3.{sys.version_info.minor}": sys.executable}


def share_interpreters() -> None:
    """Give what was found to child processes: each search runs every interpreter of PATH."""
    os.environ[PYTHON_PATHS] = os.pathsep.join(interpreters().values())


def missing() -> list[str]:
    """Return the names of the interpreters that were not found."""
    return [name for name in PYTHONS if name not in interpreters()]


def _ask(path: str) -> subprocess.Popen[str] | None:
    code = "import sys; print('python%d.%d' % sys.version_info[:2], sys.executable)"
    try:
        return subprocess.Popen(
            [path, "-I", "-S", "-c", code],
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            text=True,
        )
    except OSError:
        return None


def _identify(path: str, asking: subprocess.Popen[str] | None) -> tuple[str, str]:
    """Return the name of an interpreter, empty for one that does not run, and its own path: PATH
    may have a script that looks for it."""
    if asking is None:
        return "", path
    said, _ = asking.communicate(timeout=60)
    name, _blank, own_path = said.strip().partition(" ")
    return (name, own_path) if asking.returncode == 0 else ("", path)
