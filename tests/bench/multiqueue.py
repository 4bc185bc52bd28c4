"""Jobs a second of `koala simulate multiqueue`, the whole process."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path
from resource import RUSAGE_CHILDREN, getrusage

from tests.bench.figures import Figure
from tests.harness.children import module_command

LEAST_JOBS_PER_S = 20_000.0


def measure(_folder: Path, is_quick: bool) -> list[Figure]:
    """Four policies at a load at which queues form."""
    jobs = 60_000 if is_quick else 300_000
    return [
        Figure(
            name=f"simulated jobs, {policy}", value=jobs_per_s(policy, jobs), unit="/s",
            how=f"koala simulate multiqueue, {jobs} jobs, whole process, CPU time",
            limit=LEAST_JOBS_PER_S, is_least=True,
        )
        for policy in ("GS", "LS-DO", "LP-GF", "LQ")
    ]  # fmt: skip


def jobs_per_s(policy: str, jobs: int) -> float:
    """Measure one process on one core, from its start to its end."""
    words = (
        f"simulate multiqueue --policy {policy} --utilization 0.75 --jobs {jobs} --warmup 1000"
        " --reps 1 --workers 1 --json"
    )
    before = cpu_s()
    subprocess.run(
        module_command("koala.cli.main", *words.split()),
        check=True,
        stdout=subprocess.DEVNULL,
        env={**os.environ, "PYTHONPATH": os.pathsep.join(path for path in sys.path if path)},
    )
    return jobs / (cpu_s() - before)


def cpu_s() -> float:
    """Processor time that all children have used."""
    used = getrusage(RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime
