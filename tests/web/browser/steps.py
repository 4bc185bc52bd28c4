"""Commands beside a browser."""

from __future__ import annotations

import json
import subprocess
from typing import Any

from tests.cli.command import koala
from tests.cli.grids import Up


def command(address: str, *words: str, stdin: bytes = b"") -> subprocess.CompletedProcess[str]:
    """A command in a process of its own: the browser's client runs an event loop in this one."""
    return koala(*words, "--address", address, stdin=stdin)


def submitted(address: str, text: str) -> str:
    """The id of a job that must be accepted."""
    run = command(address, "submit", "-", stdin=text.encode())
    assert run.returncode == 0, run.stderr
    return run.stdout.strip()


def document(grid: Up, *words: str) -> dict[str, Any]:
    """Run a command with --json and read its answer."""
    run = command(grid.address, *words, "--json")
    assert run.returncode == 0, run.stderr
    found = json.loads(run.stdout)
    assert isinstance(found, dict)
    return found
