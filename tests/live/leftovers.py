"""Find what a grid at rest may not have any more: claims, placeholders, copies, half files."""

from __future__ import annotations

import os
import sqlite3
from collections.abc import Iterator
from contextlib import closing, suppress
from pathlib import Path

import msgspec

from koala_agent.lrm.job_table import FILE_NAME as JOBS
from koala_agent.lrm.job_table import Over
from koala_agent.placeholders.starter_installation import STARTERS
from tests.live.grid import Grid


def leftovers(grid: Grid) -> list[str]:
    """List what is left, at the daemon and at the sites; reads beside them."""
    found = [f"process {pid} of {claim}" for pid, claim in grid.processes().items()]
    for site in grid.sites:
        found += [f"{site}: {what}" for what in _at_site(grid.state / site)]
    found += [f"daemon: {what}" for what in _at_daemon(grid.state / "daemon")]
    found += [f"socket {path} of a starter" for path in _sockets(grid)]
    return sorted(found)


def placeholders(grid: Grid) -> list[str]:
    """List what is in the queues of emulated managers when nobody has their tables open."""
    found = []
    for site in grid.sites:
        with closing(sqlite3.connect(grid.state / site / "lrm" / JOBS)) as database:
            for claim, body in database.execute("SELECT claim, body FROM job"):
                if msgspec.msgpack.decode(body)["state"]["type"] != Over.__name__:
                    found.append(f"{site}: placeholder of {claim}")
    return found


def _at_site(state: Path) -> Iterator[str]:
    with closing(sqlite3.connect(f"file:{state / 'agent.db'}?mode=ro", uri=True)) as database:
        for (claim,) in database.execute("SELECT id FROM claim"):
            yield f"claim {claim}"
    for path in sorted((state / "claims").iterdir()):
        if path.name != STARTERS:
            yield f"folder {path.name} of a claim"
    for path in sorted((state / "transfers" / "incoming").iterdir()):
        yield f"copy {path.name}"


def _sockets(grid: Grid) -> Iterator[Path]:
    """Those that starters made outside of their claims' folders since the grid began."""
    began_at = grid.config("daemon").stat().st_mtime
    for folder in sorted(Path("/tmp").glob("koala-*")):
        with suppress(FileNotFoundError):  # others remove theirs
            yield from [p for p in sorted(folder.glob("kv*")) if p.lstat().st_mtime >= began_at]


def _at_daemon(state: Path) -> Iterator[str]:
    for path in sorted((state / "spool" / "incoming").iterdir()):
        yield f"half file {path.name}"
    for folder, _, names in os.walk(state):  # which passes over what is removed meanwhile
        for name in names:
            if name.endswith((".new", ".part", ".tmp")):
                yield f"half file {(Path(folder) / name).relative_to(state)}"
