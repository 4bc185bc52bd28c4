"""Estimate pi with Dask: be the scheduler and the client of workers at other sites.

Runs as the first component of dask.rsl. Scheduler and workers dial each other at the ports that
they name, directly or through the grid. Closing the cluster ends the workers, and with them the
job.
"""

from __future__ import annotations

import argparse
import os
import random
from collections import Counter

from distributed import Client, SpecCluster, get_worker
from distributed.scheduler import Scheduler


def throw(seed: int, darts: int) -> tuple[str, int]:
    """Throw darts at a square; return the worker's name, and how many hit the quarter circle."""
    numbers = random.Random(seed)
    hits = sum(numbers.random() ** 2 + numbers.random() ** 2 < 1 for _ in range(darts))
    return str(get_worker().name), hits


def main() -> None:
    """Wait for the workers, spread the darts over them, and print who threw how many."""
    options = argparse.ArgumentParser(description=__doc__)
    options.add_argument("--workers", type=int, required=True)
    options.add_argument("--tasks", type=int, default=40)
    options.add_argument("--darts", type=int, default=50_000, help="of a task")
    options.add_argument("--wait", type=float, default=120, help="longest wait for workers, in s")
    given = options.parse_args()

    host, port = os.environ["KOALA_LISTEN_SCHEDULER"].rsplit(":", 1)
    address = {"host": host, "port": int(port)}
    # Its page would listen at 8787, which may be the port of a worker.
    page = {"dashboard": False, "dashboard_address": "127.0.0.1:0"}
    scheduler = {"cls": Scheduler, "options": {**address, **page}}
    with SpecCluster(scheduler=scheduler, workers={}) as cluster, Client(cluster) as client:
        client.wait_for_workers(given.workers, timeout=given.wait)
        print(f"{given.workers} workers have come", flush=True)
        futures = client.map(throw, range(given.tasks), darts=given.darts)
        results = client.gather(futures)
    tasks = Counter(site for site, _ in results)
    hits = sum(count for _, count in results)
    for site, count in sorted(tasks.items()):
        print(f"{site} ran {count} of {given.tasks} tasks")
    print(f"pi is about {4 * hits / (given.tasks * given.darts):.3f}")


if __name__ == "__main__":
    main()
