"""Scenario of the demo: its grid, jobs and input files, drawn from a seed.

Processors of emulated sites are virtual, but processes are real. `PROCESSES_MAX` bounds the
programs that run at once: a job is submitted when earlier jobs leave room.
"""

from __future__ import annotations

import random
import sys
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from koala.core.model.values import SiteName
from koala.job_descriptions import read_job, write_job
from koala.local.grid_file import GridFolder

GRID_FILE = "das.toml"
PROCESSES_MAX = 24
GAP_MEAN_S = 1.5
"""Mean time between submissions, unless PROCESSES_MAX delays them."""
FILE_BYTES = 3_000_000
FILES = {"poisson.dat": ("delft", "leiden"), "strips.dat": ("vu", "utrecht")}
"""Maps each input file to the two sites with its replicas."""
SITES = ("amsterdam", "delft", "leiden", "utrecht", "vu")

STREAM = (
    ("hello.rsl", ""),
    ("poisson/poisson.rsl", "poisson.dat"),
    ("fedavg/fedavg.rsl", ""),
    ("poisson/poisson-five.rsl", ""),
    ("ordered.rsl", ""),
    ("quorum.rsl", ""),
    ("poisson/poisson.rsl", "strips.dat"),
    ("high-priority.rsl", ""),
    ("hello.rsl", ""),
    ("poisson/poisson.rsl", "poisson.dat"),
    ("fedavg/fedavg.rsl", ""),
    ("ordered.rsl", ""),
    ("poisson/poisson.rsl", "strips.dat"),
    ("hello.rsl", ""),
)
"""Descriptions in examples/ with their input files, in order of submission."""


@dataclass(frozen=True, slots=True, kw_only=True)
class PlannedJob:
    """One job of the demo: submitted `gap_s` after the previous one, once there is room."""

    name: str
    text: str
    processes: int
    gap_s: float


def plan(examples: Path, *, seed: int, jobs: int) -> list[PlannedJob]:
    """Plan the demo's jobs. Beyond its length the stream repeats with other draws."""
    rng = random.Random(seed)
    return [_planned(examples, *STREAM[number % len(STREAM)], rng=rng) for number in range(jobs)]


def fill_stores(folder: GridFolder, *, seed: int = 1) -> None:
    """Write the replicas that the sites hold at the start."""
    for name, holders in FILES.items():
        for site in holders:
            store = folder.store(site)
            store.mkdir(parents=True, exist_ok=True)
            store.joinpath(name).write_bytes(input_bytes(name, seed=seed))


def input_bytes(name: str, *, seed: int) -> bytes:
    """Generate the content of an input file: random bytes, the same for the same seed."""
    return random.Random(f"{seed}/{name}").randbytes(FILE_BYTES)


def _planned(examples: Path, path: str, file: str, *, rng: random.Random) -> PlannedJob:
    definitions = {
        "HERE": str(examples.joinpath(path).parent),
        "PYTHON": sys.executable,
        **({"INPUT": file} if file else {}),
    }
    text = examples.joinpath(path).read_text(encoding="utf-8")
    spec = read_job(text, definitions).spec
    if path.startswith("poisson/"):
        sites = _spread(len(spec.components), holders=FILES.get(file, ()), rng=rng)
        spec = replace(
            spec,
            components=tuple(
                replace(component, site=SiteName(site))
                for component, site in zip(spec.components, sites, strict=True)
            ),
        )
    return PlannedJob(
        name=Path(path).stem,
        text=write_job(spec),
        processes=sum(component.processes for component in spec.components),
        gap_s=rng.expovariate(1 / GAP_MEAN_S),
    )


def _spread(count: int, *, holders: Sequence[str], rng: random.Random) -> list[str]:
    """Choose distinct sites, all but one without a replica.

    The strips' neighbours are then far apart, and files are transferred. Close-to-Files alone would
    place all components at the file's site.
    """
    away = rng.sample([site for site in SITES if site not in holders], k=min(3, count - 1))
    near = rng.sample(list(holders) or SITES, k=1)
    chosen = list(dict.fromkeys([*away, *near]))
    others = [site for site in SITES if site not in chosen]
    return [*chosen, *rng.sample(others, k=len(others))][:count]
