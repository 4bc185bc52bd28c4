"""Interpreters that compute nodes may have, as far as this machine has them."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from functools import cache

NAMES = tuple(f"python3.{minor}" for minor in range(6, 14))
PATHS = "KOALA_TEST_PYTHONS"


@cache
def interpreters() -> dict[str, str]:
    """Find interpreters by their names: those of the variable KOALA_TEST_PYTHONS (paths, as in
    PATH) or else of PATH, and always our own."""
    given = os.environ.get(PATHS)
    paths = given.split(os.pathsep) if given else [shutil.which(name) or "" for name in NAMES]
    asked = [(path, _ask(path)) for path in paths if path]  # all at once
    found = dict(_identify(path, asking) for path, asking in asked)
    found.pop("", None)
    return found | {f"python3.{sys.version_info.minor}": sys.executable}


def share_interpreters() -> None:
    """Give what was found to child processes: each search runs every interpreter of PATH."""
    os.environ[PATHS] = os.pathsep.join(interpreters().values())


def missing() -> list[str]:
    """Return the names of the interpreters that were not found."""
    return [name for name in NAMES if name not in interpreters()]


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
