"""Measure other systems under the same work, in the same run: N programs, submission to last end.

They are installed apart from Koala by `make bench-peers`; without that they are left out.
"""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from contextlib import suppress
from pathlib import Path

from tests.bench.figures import Figure

PYTHON = Path(__file__).parents[2] / "build" / "bench-peers" / "bin" / "python"
PROGRAMS = Path(__file__).with_name("peer_programs.py")
LIMIT_S = 300.0
PEERS = {
    "hyperqueue": "HyperQueue: a job of so many tasks, a server and a worker of two processors; "
    "its client looks once a second",
    "distributed": "dask.distributed: calls that each start the program, two workers",
}


def measure(folder: Path, is_quick: bool) -> list[Figure]:
    """Programs a second of each peer that is installed."""
    if not PYTHON.exists():
        sys.stderr.write("bench: no peers: `make bench-peers` installs them\n")
        return []
    count = 400 if is_quick else 2_000
    return [
        Figure(
            name=f"programs by {name}", value=count / took_s(folder, name, count), unit="/s",
            how=f"{count:,} x /bin/true by {how}",
        )
        for name, how in PEERS.items()
        if is_installed(name)
    ]  # fmt: skip


def is_installed(name: str) -> bool:
    """Say if the peer can be imported in its environment; its wheel may not exist here."""
    command = [str(PYTHON), "-c", f"import {name}"]
    return subprocess.run(command, stderr=subprocess.DEVNULL, check=False).returncode == 0


def took_s(folder: Path, name: str, count: int) -> float:
    """Let a peer run so many programs; the seconds from the submission to the last end."""
    log = folder / f"{name}.log"
    with (
        log.open("wb") as errors,
        subprocess.Popen(
            [str(PYTHON), str(PROGRAMS), name, str(count)],
            stdout=subprocess.PIPE,
            stderr=errors,
            cwd=folder,
            start_new_session=True,
            stdin=subprocess.PIPE,
        ) as process,
    ):
        try:
            # Its input stays open: it ends with the benchmark.
            process.wait(LIMIT_S)
            assert process.stdout is not None
            output = process.stdout.read()
        finally:
            with suppress(ProcessLookupError):
                os.killpg(process.pid, signal.SIGKILL)
    if process.returncode:
        raise RuntimeError(f"{name} ended with {process.returncode}: {log.read_text()[-2000:]}")
    return float(output.split()[-1])
