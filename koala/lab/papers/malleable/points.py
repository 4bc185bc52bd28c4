"""Runs of the experiment with malleable jobs: points of its figures."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import Any

from koala.core.model.values import Seconds
from koala.lab.papers.malleable.simulation.run import run as run_once
from koala.lab.papers.malleable.simulation.setting import Setting
from koala.lab.sim.runs import Level, Outcome, Quantity, Run, changes

FIXED = ("least", "most", "moldable")
POLICIES: dict[str, dict[str, Any]] = {
    **{shape: {"shape": shape} for shape in FIXED},
    "FPSMA PRA": {"manager": "FPSMA", "first": "running"},
    "EGS PRA": {"manager": "EGS", "first": "running"},
    "FPSMA PWA": {"manager": "FPSMA", "first": "waiting"},
    "EGS PWA": {"manager": "EGS", "first": "waiting"},
}
"""Treatments of the jobs: a fixed size, or a manager and a precedence."""
MALLEABLE = tuple(name for name in POLICIES if name not in FIXED)
RATES = (0.5, 1.0, 2.0, 3.0, 4.0, 6.0)
"""Jobs a minute."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Reading:
    """A reading of what is not known of the experiment; the defaults are ours."""

    malleable_share: float = 1.0
    component_max: int = 8
    step_s: Seconds = 10.0
    leave_s: Seconds = 2.0

    def __str__(self) -> str:
        return changes(self, "g")


MIXED = Reading(malleable_share=0.5)
"""Half of the jobs are rigid."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ReadLevel(Level):
    """A level, or a reading, at which claims are judged."""

    rate: float
    reading: Reading = Reading()


NEAR = 4.0
LEVELS = (
    ReadLevel(name="a job every 120 s", rate=0.5),
    ReadLevel(name="a job every 30 s", rate=2.0),
    ReadLevel(name="a job every 15 s", rate=NEAR, is_near=True),
)


def _reading(name: str, *, rate: float = NEAR, **changed: Any) -> ReadLevel:  # noqa: ANN401
    return ReadLevel(name=name, is_near=True, rate=rate, reading=Reading(**changed))


READINGS = (
    _reading("a job every 10 s", rate=6.0),
    _reading("half of the jobs rigid", malleable_share=MIXED.malleable_share),
    _reading("components of at most 4", component_max=4),
    _reading("components of at most 16", component_max=16),
    _reading("30 s to give way", leave_s=30.0),
    _reading("resized once in 60 s", step_s=60.0),
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Point:
    """One policy at one rate of submissions."""

    policy: str
    rate: float
    reading: Reading = Reading()

    def __str__(self) -> str:
        return f"{self.policy}, {self.rate:g} a minute, {self.reading}"


def of(policy: str, metric: str, rate: float, reading: Reading = Reading()) -> Quantity:
    """Return a metric of a policy."""
    point = Point(policy=policy, rate=rate, reading=reading)
    return Quantity(point, metric, f"{metric} of {policy}, every {60 / rate:g} s")


def run(wanted: Run) -> Outcome:
    """Make one run; the effort says how many jobs are submitted."""
    point = wanted.setting
    assert isinstance(point, Point), point
    setting = Setting(
        jobs=round(wanted.effort.length),
        interval_s=60.0 / point.rate,
        **POLICIES[point.policy],
        **asdict(point.reading),
    )
    return Outcome(values=run_once(setting, wanted.seed).values)
