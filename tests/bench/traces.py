"""Replays of logs, the whole process."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

from tests.bench.figures import Figure
from tests.harness.children import module_command

MEMORY_MAX_MB = 60.0


def measure(folder: Path, is_quick: bool, logs: Sequence[Path] = ()) -> list[Figure]:
    """The given logs, or one that the model of Lublin and Feitelson draws."""
    figures = []
    for log in logs or [synthetic(folder, 10_000 if is_quick else 50_000)]:
        for policy in ("fcfs", "easy"):
            figures += replays(folder, log, policy)
    return figures


def synthetic(folder: Path, jobs: int) -> Path:
    """A log with a load at which queues form, and estimates up to three times the run times."""
    path = folder / f"lublin{jobs}.swf"
    words = f"simulate workload lublin --jobs {jobs} --stretch 0.55 --overestimate 3"
    with path.open("wb") as file:
        subprocess.run(command(*words.split()), stdout=file, env=environment(), check=True)
    return path


def replays(folder: Path, log: Path, policy: str) -> list[Figure]:
    """Processor time and memory of one log under one policy."""
    table = folder / "jobs.csv"
    words = ("simulate", "trace", str(log), "--policy", policy, "--jobs-out", str(table))
    took_s = least_cpu_s(command(*words))
    jobs = table.read_bytes().count(b"\n") - 1
    name = f"replay of {log.stem}, {jobs:,} jobs, {policy}"
    how = "koala simulate trace --jobs-out, whole process"
    return [
        Figure(name=name, value=took_s, unit="CPU-s", how=f"{how}, the best of three"),
        Figure(
            name=f"{name}: memory", value=largest_mb(*words), unit="MB", limit=MEMORY_MAX_MB,
            how=f"{how}, largest resident set",
        ),
    ]  # fmt: skip


def least_cpu_s(words: list[str]) -> float:
    """The processor time of the best of three runs."""
    times = []
    for _ in range(3):
        process = subprocess.Popen(words, stdout=subprocess.DEVNULL, env=environment())
        try:
            _, status, usage = os.wait4(process.pid, 0)
        except BaseException:
            process.terminate()
            raise
        process.returncode = os.waitstatus_to_exitcode(status)
        assert process.returncode == 0, words
        times.append(usage.ru_utime + usage.ru_stime)
    return min(times)


def largest_mb(*words: str) -> float:
    """The largest resident set of a command of ours. It is asked itself: what the system says of a
    child counts what the parent had when it began the child."""
    code = (
        "import sys; from koala.cli.main import main; status = main(sys.argv[1:]);"
        "lines = open('/proc/self/status').read().splitlines();"
        "print(next(line.split()[1] for line in lines if line.startswith('VmHWM')));"
        "sys.exit(status)"
    )
    run = subprocess.run(
        [sys.executable, "-c", code, *words], env=environment(), capture_output=True, check=True
    )
    return int(run.stdout.split()[-1]) / 1024


def command(*words: str) -> list[str]:
    """`koala` of this source tree."""
    return module_command("koala.cli.main", *words)


def environment() -> dict[str, str]:
    """Ours, with the packages of this source tree."""
    return {**os.environ, "PYTHONPATH": os.pathsep.join(path for path in sys.path if path)}
