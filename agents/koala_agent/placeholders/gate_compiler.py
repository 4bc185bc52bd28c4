"""The compiled gate of blocked processes (`starter/blocked/gate.c`), where a compiler is found.

It is compiled once for each account and version, and kept in the account's cache folder. Without a
compiler, or where nothing below the cache can be executed, there is none: starters then fork
themselves, which costs several times as much for each process and does the same.
"""

from __future__ import annotations

import hashlib
import os
import platform
import shutil
import subprocess
import tempfile
from importlib import resources
from pathlib import Path

from koala.common.runtime.structured_log import get_logger

log = get_logger()

LIMIT_S = 60.0
UNUSED = 127
"""Exit status of a gate without arguments."""
LINKAGES = ((), ("-static",))
"""Options of the compiler, the later the better: a program without libraries starts sooner."""


def find_gate(folder: Path | None = None) -> str:
    """Return the path of the gate in a cache folder, compiled if it is new; empty if there is none.
    It may take a second.
    """
    try:
        kept = _cache() if folder is None else folder
        source = resources.files("koala_agent").joinpath("starter/blocked/gate.c").read_bytes()
        mark = hashlib.sha256(source + platform.machine().encode()).hexdigest()[:16]
        path = kept / f"gate-{mark}"
        kept.mkdir(mode=0o700, parents=True, exist_ok=True)
        if not _is_own(kept):
            raise PermissionError(f"others can write to {kept}")
        if _is_own(path) and _runs(path):
            return str(path)
        _compile(source, path)
        return str(path) if _runs(path) else ""
    except (OSError, RuntimeError, subprocess.SubprocessError) as error:  # no home, for instance
        log.info("gate.not_compiled", reason=str(error))
        return ""


def _cache() -> Path:
    base = os.environ.get("XDG_CACHE_HOME")
    return (Path(base) if base else Path.home() / ".cache") / "koala"


def _is_own(path: Path) -> bool:
    """Check that a file or folder exists, and that nobody but this account can write there."""
    try:
        found = path.lstat()
    except FileNotFoundError:
        return False
    return found.st_uid == os.geteuid() and not found.st_mode & 0o022


def _runs(path: Path) -> bool:
    """Run a gate for nothing: it may be incomplete, for another machine, or not executable."""
    try:
        found = subprocess.run(
            [path], stdin=subprocess.DEVNULL, capture_output=True, timeout=LIMIT_S, check=False
        )
    except OSError:
        return False
    return found.returncode == UNUSED


def _compile(source: bytes, path: Path) -> None:
    """Compile the gate. Raises OSError and SubprocessError."""
    compiler = shutil.which("cc")
    if compiler is None:
        raise FileNotFoundError("there is no cc in PATH")
    with tempfile.TemporaryDirectory(prefix="gate-", dir=path.parent) as folder:
        text, made = Path(folder, "gate.c"), Path(folder, "gate")
        text.write_bytes(source)
        for linkage in LINKAGES:
            done = subprocess.run(
                [compiler, "-Os", "-s", *linkage, "-o", made, text],
                stdin=subprocess.DEVNULL,
                capture_output=True,
                timeout=LIMIT_S,
                check=False,
            )
            if done.returncode == 0:
                made.chmod(0o700)
                made.replace(path)
