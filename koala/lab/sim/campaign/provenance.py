"""Describe the program that makes a result: version, commit, interpreter, libraries, machine."""

from __future__ import annotations

import os
import platform
import subprocess
import sys
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any

import koala
from koala.common.runtime.software import DISTRIBUTION

LIBRARIES = ("msgspec", "scipy", "matplotlib", "numpy", "distributed")
"""Packages that results, figures and their files depend on."""
GIT_S = 10.0


def program() -> dict[str, Any]:
    """Return version and commit of Koala; `modified` means that its files are not those of the
    commit. The commit is None outside a clone."""
    commit = _git("rev-parse", "HEAD")
    changes = _git("status", "--porcelain", "--untracked-files=no") if commit else None
    return {
        "version": _version(DISTRIBUTION),
        "commit": commit or None,
        "modified": None if changes is None else bool(changes),
    }


def environment() -> dict[str, Any]:
    """Return versions of interpreter and libraries, and facts of the machine."""
    return {
        "python": platform.python_version(),
        "implementation": sys.implementation.name,
        "libraries": {name: found for name in LIBRARIES if (found := _version(name))},
        "platform": platform.platform(),
        "machine": platform.machine(),
        "cores": len(os.sched_getaffinity(0)),
    }


def _version(name: str) -> str | None:
    try:
        return version(name)
    except PackageNotFoundError:
        return None


def _git(*words: str) -> str | None:
    """Ask git about the clone that Koala runs from; None if it is none."""
    folder = Path(koala.__file__).resolve().parents[1]
    if not (folder / ".git").exists():
        return None
    try:
        done = subprocess.run(
            ["git", "-C", str(folder), *words],
            capture_output=True, text=True, check=False, timeout=GIT_S,
        )  # fmt: skip
    except (OSError, subprocess.TimeoutExpired):
        return None
    return done.stdout.strip() if done.returncode == 0 else None
