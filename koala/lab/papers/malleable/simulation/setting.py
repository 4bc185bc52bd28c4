"""Parameters of the experiment with malleable jobs."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass
from typing import Any

from koala.common.runtime.option_values import Bounds, site_sizes
from koala.core.model.values import Seconds, SiteName
from koala.lab.sim.options import (
    JOBS_MAX,
    Declared,
    choice,
    number,
    policy,
    require,
    require_declared,
    text,
)

LEAST = 2
"""Processors with which every job can run."""
SHAPES = ("malleable", "moldable", "least", "most")


@dataclass(frozen=True, slots=True, kw_only=True)
class Application:
    """An application: the most processors that it uses, and its run times with the least and the
    most. Between these, and up to `most`, a part of the work is serial."""

    most: int
    least_s: Seconds
    most_s: Seconds
    takes_powers: bool = False
    """It runs on a power of two: the greatest that its processors hold."""

    def run_s(self, processors: int) -> Seconds:
        """Return the run time with so many processors (Amdahl)."""
        used = min(processors, self.most)
        if self.takes_powers:
            used = 1 << used.bit_length() - 1
        parallel_s = (self.least_s - self.most_s) / (1 / LEAST - 1 / self.most)
        return self.most_s + parallel_s * (1 / used - 1 / self.most)


APPLICATIONS: Mapping[str, Application] = {
    "ft": Application(most=32, least_s=120.0, most_s=60.0, takes_powers=True),
    "gadget": Application(most=46, least_s=600.0, most_s=240.0),
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Setting:
    """One point of the experiment. The text of the paper was not at hand: docs/papers/results.md
    says where each value comes from."""

    sites: tuple[int, ...] = text(
        "85,68,46,41,32", site_sizes, "Processors of each site.", metavar="SIZES"
    )
    jobs: int = number(
        300, "Jobs of one run; all of them count.", bounds=Bounds(low=1, high=JOBS_MAX)
    )
    interval_s: Seconds = number(120.0, "Time between two submissions.", bounds=Bounds(above=0))
    malleable_share: float = number(
        1.0,
        f"Share of the jobs that are malleable; the others keep {LEAST} processors.",
        name="malleable",
        bounds=Bounds(low=0, high=1),
    )
    shape: str = choice(
        "malleable",
        SHAPES,
        "What these jobs are: malleable; moldable, which keep what was idle at their start; or with"
        f" their least ({LEAST}) or their most processors.",
    )
    manager: str = policy("FPSMA", "resizing", "Manager of malleable jobs:")
    first: str = choice(
        "running",
        ("running", "waiting"),
        "Jobs with precedence: running ones (PRA), or waiting ones (PWA).",
    )
    component_max: int = number(
        8, "Most processors of a component; a job grows by components.", bounds=Bounds(low=LEAST)
    )
    step_s: Seconds = number(
        10.0, "Time between two resizes of a job, at least.", bounds=Bounds(low=0)
    )
    leave_s: Seconds = number(
        2.0, "Time that a component takes to give way.", bounds=Bounds(low=0, high=60)
    )

    def __post_init__(self) -> None:
        require_declared(self)
        is_grid = bool(self.sites) and min(self.sites) >= LEAST
        require(is_grid, "sites", self.sites, f"{LEAST} processors or more of each site")
        most = max(application.most for application in APPLICATIONS.values())
        room = sum(size - size % LEAST for size in self.sites)
        require(room >= most, "sites", self.sites, f"room for a job of {most} processors")

    @property
    def names(self) -> tuple[SiteName, ...]:
        """Names of the sites."""
        return tuple(SiteName(f"site{number}") for number in range(1, len(self.sites) + 1))

    @property
    def policy(self) -> str:
        """Name of what is done with the jobs: FPSMA PWA, or their shape."""
        if self.shape != "malleable":
            return self.shape
        return f"{self.manager} {'PRA' if self.first == 'running' else 'PWA'}"

    def document(self) -> dict[str, Any]:
        """Return all parameters, for JSON."""
        return {
            name: list(value) if isinstance(value, tuple) else value
            for name, value in asdict(self).items()
        }


SIMULATION = Declared.of(Setting)
