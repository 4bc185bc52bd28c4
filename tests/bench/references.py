"""Measure what this machine can do at best in the same run: other figures are ratios to it."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path
from time import perf_counter

from tests.bench.figures import Figure

DURABLE = "durable appends"
SPAWNS = "spawns of /bin/true"
INTERPRETERS = "starts of a bare interpreter"


def measure(folder: Path, is_quick: bool) -> list[Figure]:
    """Durable appends, spawned programs, and started interpreters a second."""
    return [
        Figure(
            name=DURABLE, value=appends_per_s(folder, 100 if is_quick else 500), unit="/s",
            how="1.2 kB and fdatasync, one after the other",
        ),
        Figure(
            name=SPAWNS, value=spawns_per_s(["/bin/true"], 100 if is_quick else 500), unit="/s",
            how="subprocess, one after the other",
        ),
        Figure(
            name=INTERPRETERS, unit="/s",
            value=spawns_per_s([sys.executable, "-I", "-S", "-c", ""], 30 if is_quick else 100),
            how="python -I -S, one after the other; two processors can do twice that",
        ),
    ]  # fmt: skip


def appends_per_s(folder: Path, count: int) -> float:
    """Measure how often a file can be made durable."""
    descriptor = os.open(folder / "appends", os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)
    begun_at = perf_counter()
    for _ in range(count):
        os.write(descriptor, bytes(1_200))
        os.fdatasync(descriptor)
    took_s = perf_counter() - begun_at
    os.close(descriptor)
    return count / took_s


def spawns_per_s(command: list[str], count: int) -> float:
    """Measure how often a program can be started and waited for."""
    begun_at = perf_counter()
    for _ in range(count):
        subprocess.run(command, check=True)
    return count / (perf_counter() - begun_at)
