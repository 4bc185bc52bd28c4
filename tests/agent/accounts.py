"""Accounts of this machine for tests: two that every Debian has and nothing runs as, since a test
should make none."""

from __future__ import annotations

import os
import pwd
import shutil
import stat
import subprocess
import tempfile
import unittest
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

ANN, BOB = "games", "nobody"
"""`ANN` is an account of the system, `BOB` is not."""

PYTHONS = ("/usr/bin/python3", "/usr/local/bin/python3")
NEEDS_ROOT = "only root can become other accounts"


def need_root() -> None:
    """A machine where the tests are not root says so; under CI that is a failure."""
    if os.geteuid() != 0:
        raise unittest.SkipTest(NEEDS_ROOT)


@contextmanager
def a_scratch() -> Iterator[Path]:
    """A folder like /tmp, where every account may make folders of its own."""
    need_root()
    with tempfile.TemporaryDirectory(prefix="koala-accounts-") as folder:
        scratch = Path(folder)
        scratch.chmod(0o1777)
        yield scratch


def python() -> str:
    """An interpreter that every account can run; that of the tests may be in somebody's home."""
    return next(name for name in PYTHONS if shutil.which(name))


def as_account(name: str, *argv: str) -> subprocess.CompletedProcess[str]:
    """Runs a command as an account. (Not by subprocess's own means: they fork, which a process with
    gRPC in it does not survive well.)"""
    words = ("setpriv", f"--reuid={name}", "--init-groups", f"--regid={pwd.getpwnam(name).pw_gid}")
    return subprocess.run(
        [*words, "--", *argv], capture_output=True, text=True, cwd="/", check=False
    )


def owners(folder: Path) -> set[tuple[int, int]]:
    """Map each path below a folder to its owner and what others may do with it."""
    paths = [folder, *folder.rglob("*")]
    return {(p.lstat().st_uid, stat.S_IMODE(p.lstat().st_mode) & 0o077) for p in paths}
