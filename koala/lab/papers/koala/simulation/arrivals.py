"""Random jobs to co-allocate (KOALA 4.2), and the regular users of each site.

Each purpose has its own random stream, and draws scale with a parameter instead of changing in
number. So two settings with one seed differ only in what their parameters say.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from math import log
from random import Random
from typing import TypeVar

from koala.core.model.job_spec import ComponentSpec, InputFile, JobSpec
from koala.core.model.values import FileName, JobId, Priority, SiteName, UserName
from koala.lab.papers.koala.simulation.setting import Setting
from koala.lab.sim.experiment.setting import LocalJob, Submission
from koala.lab.workload.random_streams import stream

OWNER = UserName("koala")
Choice = TypeVar("Choice")


def submissions(setting: Setting, seed: int) -> Iterator[Submission]:
    """Generate submissions: Poisson arrivals; size, then components among those allowed, file size
    and priority at random; all components run equally long (KOALA 4.1, 4.2)."""
    arrivals, runs = stream(seed, "arrivals"), stream(seed, "run times")
    shapes, files = stream(seed, "sizes"), stream(seed, "files")
    priorities = stream(seed, "priorities")
    at = setting.warmup_s
    for number in range(1, setting.jobs + 1):
        at += arrivals.expovariate(1.0) * setting.interval_s
        size = _pick(shapes, setting.sizes)
        count = _pick(shapes, setting.allowed(size))
        file_bytes = _pick(files, setting.file_bytes)
        holders = files.sample(setting.names, setting.replicas)
        low_s, high_s = setting.run_s
        run_s = low_s + runs.random() * (high_s - low_s)
        component = ComponentSpec(
            executable="poisson", processors=size // count, wall_time_s=high_s
        )
        yield Submission(
            job=JobId(f"j{number}"),
            at=at,
            spec=JobSpec(
                components=(component,) * count,
                owner=OWNER,
                priority=Priority.HIGH
                if priorities.random() < setting.high_share
                else Priority.LOW,
                input_file=InputFile(name=FileName(f"input{number}"), size_bytes=file_bytes),
            ),
            run_s=(run_s,) * count,
            replicas=tuple(holders),
        )


def local_jobs(setting: Setting, site: SiteName, processors: int, seed: int) -> Iterator[LocalJob]:
    """Generate the regular users' jobs of a site, without end: Poisson arrivals, sizes uniform
    among those given, exponential run times, and estimates that are too long by a factor."""
    if not setting.local_load:
        return
    arrivals = stream(seed, f"local arrivals at {site}")
    sizes = stream(seed, f"local sizes at {site}")
    runs = stream(seed, f"local run times at {site}")
    mean_size = sum(setting.local_sizes) / len(setting.local_sizes)
    interval_s = mean_size * setting.local_run_s / (setting.local_load * processors)
    next_gap, next_run, next_size = arrivals.random, runs.random, sizes.random
    among, count = setting.local_sizes, len(setting.local_sizes)
    mean_s, factor, new = setting.local_run_s, setting.local_estimate, tuple.__new__
    at = 0.0
    while True:  # as `expovariate` and `_pick` draw, without their calls
        at -= log(1.0 - next_gap()) * interval_s
        run_s = -log(1.0 - next_run()) * mean_s
        size = among[int(next_size() * count)]
        yield new(LocalJob, (at, size, run_s, run_s * factor))


def _pick(draws: Random, among: Sequence[Choice]) -> Choice:
    """Pick one of them with a single draw, however many there are."""
    return among[int(draws.random() * len(among))]
