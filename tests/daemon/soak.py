"""Runs many jobs through one daemon and looks at what grows: `python -m tests.daemon.soak`.

    python -m tests.daemon.soak --jobs 20000 [--json]

The agent is a fake, so that nothing but the daemon is measured; jobs are over as soon as they
begin. The configuration keeps little (200 jobs, no events that no start needs), so that what must
stay flat is flat soon: resident memory, open files, threads, the database and its log.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import tempfile
from pathlib import Path

import psutil

from koala.client import AsyncClient, Submission
from koala.daemon.storage.folder import FILE
from tests.daemon.fake_agent import FakeAgent
from tests.daemon.test_process import configured, started

ONE = "&(executable=/bin/true)(count=1)"
LOT = 100
MORE = """plain = true
[parameters]
claiming_step_min_s = 0.05
[journal]
keep_jobs = 200
snapshot_events = 1000
keep_days = 0.0001
keep_past_jobs_days = 0.0001
"""


def figures(process: psutil.Process, state: Path, jobs: int) -> dict[str, float]:
    """Measure the daemon after so many jobs."""
    log = state / f"{FILE}-wal"
    return {
        "jobs": jobs,
        "memory_mb": round(process.memory_info().rss / 1e6, 1),
        "files": process.num_fds(),
        "threads": process.num_threads(),
        "database_mb": round((state / FILE).stat().st_size / 1e6, 2),
        "log_mb": round(log.stat().st_size / 1e6, 2) if log.exists() else 0.0,
    }


async def soak(folder: Path, jobs: int, looks: int = 10) -> list[dict[str, float]]:
    """The figures at so many instants of the run."""
    found = []
    with started(configured(folder, MORE), by_exec=True) as daemon:
        child, address = daemon.process, daemon.address
        process = psutil.Process(child.pid)
        reading = asyncio.get_running_loop().run_in_executor(None, drained, daemon.stderr)
        async with asyncio.TaskGroup() as group, AsyncClient(address) as client:
            agent = FakeAgent(address, processors=1000)
            staying = group.create_task(agent.stay())
            for number in range(0, jobs, LOT):
                keys = [f"k{number + n}" for n in range(LOT)]
                results = await client.submit_many([Submission(rsl=ONE, key=k) for k in keys])
                names = [result.job for result in results if not isinstance(result, Exception)]
                assert len(names) == LOT, results[0]
                assert set((await client.wait_all(names)).values()) == {"Finished"}
                agent.heard.clear()
                if (number + LOT) % max(LOT, jobs // looks) == 0:
                    found.append(figures(process, folder / "state", number + LOT))
            staying.cancel()
        child.terminate()
        await reading
    return found


def drained(stream: object) -> None:
    """Read what the daemon says, so that it never waits for us."""
    for _ in stream:  # type: ignore[attr-defined]  # a text file
        pass


def main() -> None:
    """The command."""
    parser = argparse.ArgumentParser(prog="python -m tests.daemon.soak")
    parser.add_argument("--jobs", type=int, default=20_000)
    parser.add_argument("--json", action="store_true")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="koala-soak-") as folder:
        found = asyncio.run(soak(Path(folder), options.jobs))
    if options.json:
        print(json.dumps(found, indent=1))
        return
    for row in found:
        print("  ".join(f"{name} {value:g}" for name, value in row.items()))


if __name__ == "__main__":
    main()
