"""A starter loads few modules until its claim has ended: each delays the check-in, and costs a
compute node its time for each claim."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from tests.agent.site import a_hold, a_site

pytestmark = pytest.mark.live

TRACED = f"""#!/bin/sh
case "$*" in *resident*) exit 1; esac
exec {sys.executable} -X importtime "$@"
"""
"""Nothing resident: each starter is an interpreter of its own, as on a compute node."""
OWN = "koala_agent"
OWN_MAX = 33
NEEDED = {
    *("_stat", "stat", "genericpath", "posixpath", "_collections_abc", "os"),
    *("errno", "gc", "math", "select", "_blake2", "_ctypes", "_json", "_socket", "resource"),
}
"""Modules of the standard library, but those of any interpreter without its module `site`."""


def loaded(log: str) -> set[str]:
    """The modules in a log of `-X importtime`."""
    lines = (line.split("|") for line in log.splitlines() if line.startswith("import time:"))
    return {parts[-1].strip() for parts in lines if "package" not in parts[-1]}


def trace_of_nothing(python: Path) -> str:
    words = [str(python), "-I", "-S", "-c", ""]
    done = subprocess.run(words, stderr=subprocess.PIPE, text=True, check=True)
    return done.stderr


async def test_a_starter_loads_no_more_than_it_needs(tmp_path: Path) -> None:
    python = tmp_path / "python"
    python.write_text(TRACED)
    python.chmod(0o755)
    hold = a_hold()
    async with a_site(tmp_path, python=python, kind="slurm") as site:
        await site.passed(hold)
        end = (await site.gone()).end
        assert end is not None
        assert end.succeeded, end
        found = loaded((site.folders.folder(hold.claim) / "placeholder.out").read_text())
    own = {name for name in found if name.startswith(OWN)}
    assert found - own - loaded(trace_of_nothing(python)) <= NEEDED
    assert 20 < len(own) <= OWN_MAX
