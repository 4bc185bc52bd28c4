"""Run N programs by another system, in an environment of its own: `peer_programs.py NAME N`.

It prints the seconds from the submission to the last end. Nothing of Koala is imported here. When
its standard input ends, the process ends with all that it started.
"""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import threading
from importlib import import_module
from time import perf_counter
from typing import Any

PROGRAM = "/bin/true"
WORKERS = 2
WARM_UP = 5


def hyperqueue(count: int) -> float:
    """Run one job of so many tasks at a server and a worker in this process."""
    library, clusters = import_module("hyperqueue"), import_module("hyperqueue.cluster")

    def tasks(number: int) -> Any:
        job = library.Job()
        for _ in range(number):
            job.program([PROGRAM])
        return job

    with library.LocalCluster() as cluster:
        cluster.start_worker(clusters.WorkerConfig(cores=WORKERS))
        client = cluster.client()
        client.wait_for_jobs([client.submit(tasks(WARM_UP))])
        job = tasks(count)
        begun_at = perf_counter()
        client.wait_for_jobs([client.submit(job)])
        return perf_counter() - begun_at


def distributed(count: int) -> float:
    """Run so many calls that each start the program, at worker processes."""
    library = import_module("distributed")
    workers = {"n_workers": WORKERS, "threads_per_worker": 1, "dashboard_address": None}
    with library.LocalCluster(**workers) as cluster, library.Client(cluster) as client:
        client.gather(client.map(start, range(WARM_UP), pure=False))
        begun_at = perf_counter()
        client.gather(client.map(start, range(count), pure=False))
        return perf_counter() - begun_at


def start(_: int) -> int:
    """Start the program and wait for it."""
    return subprocess.run([PROGRAM], check=True).returncode


def end_with_input() -> None:
    """End this process group when the benchmark is gone."""
    sys.stdin.read()
    os.killpg(0, signal.SIGKILL)


if __name__ == "__main__":
    threading.Thread(target=end_with_input, daemon=True).start()
    print({"hyperqueue": hyperqueue, "distributed": distributed}[sys.argv[1]](int(sys.argv[2])))
