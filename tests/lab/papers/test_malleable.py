"""The paper on malleable applications: its model, worked out by hand; its claims can fail."""

from __future__ import annotations

from itertools import count
from typing import Any

import pytest

from koala.lab.papers.malleable.points import LEVELS, Point
from koala.lab.papers.malleable.simulation.arrivals import submissions
from koala.lab.papers.malleable.simulation.run import Measured, run
from koala.lab.papers.malleable.simulation.setting import APPLICATIONS, Setting
from koala.lab.sim.runs import Effort
from koala.lab.sim.runs import Setting as AnySetting

TINY = Effort(name="tiny", replications=2, length=12, levels=LEVELS)
FT, GADGET = APPLICATIONS["ft"], APPLICATIONS["gadget"]
BARRIER_S = 0.1
"""A start, and a growth, take some milliseconds."""


def two_of(application: str, **changed: Any) -> Measured:
    """Two jobs of an application, 22 s apart, on a site that one of them fills."""
    setting = Setting(sites=(46,), jobs=2, interval_s=22.0, **changed)
    for seed in count(1):
        if all(application in one.job for one in submissions(setting, seed)):
            return run(setting, seed)
    raise AssertionError


def responses(found: Measured) -> list[float]:
    return [job.response_s or 0.0 for job in found.jobs]


def test_run_times_are_those_of_the_applications() -> None:
    assert [FT.run_s(2), FT.run_s(32), FT.run_s(40)] == pytest.approx([120.0, 60.0, 60.0])
    assert FT.run_s(31) == FT.run_s(16) > FT.run_s(32)
    assert [GADGET.run_s(2), GADGET.run_s(46)] == pytest.approx([600.0, 240.0])
    assert GADGET.run_s(31) < GADGET.run_s(30)


@pytest.mark.parametrize(
    ("shape", "expected"), [("least", 600.0), ("most", 240.0), ("moldable", 240.0)]
)
def test_a_job_keeps_its_size(shape: str, expected: float) -> None:
    first = two_of("gadget", shape=shape).jobs[0]
    assert first.response_s == pytest.approx(expected, abs=BARRIER_S)


def test_running_jobs_keep_what_they_have_before_waiting_ones() -> None:
    """The first has 46 processors until it ends; then the second has them."""
    found = two_of("gadget", first="running")
    assert responses(found) == pytest.approx([240.0, 240.0 - 22.0 + 240.0], abs=3 * BARRIER_S)
    assert found.values["shrunk"] == 0


def test_running_jobs_give_way_to_waiting_ones() -> None:
    """The first gives back the last of its components, 4 of 46; the second takes 2, then 4, and
    all when the first is over."""
    found = two_of("gadget", first="waiting", leave_s=0.0)
    left = 1 - 22 / 240
    first_s = 22 + left * GADGET.run_s(found.jobs[0].sizes[-2][1])
    second = found.jobs[1]
    begun_s = sum(
        (until - at) / GADGET.run_s(size)
        for (at, size), (until, _) in zip(second.sizes, second.sizes[1:], strict=False)
    )
    assert responses(found)[0] == pytest.approx(first_s, abs=3 * BARRIER_S)
    assert begun_s == pytest.approx(1.0)
    assert second.waiting_s == pytest.approx(0.0, abs=BARRIER_S)
    assert [size for _, size in second.sizes][-2:] == [46, 0]
    assert found.values["shrunk"] == pytest.approx(0.5)


def test_a_run_is_a_function_of_its_seed() -> None:
    setting = Setting(jobs=40, interval_s=15.0, malleable_share=0.5, manager="EGS", first="waiting")
    first, again, other = (run(setting, seed) for seed in (1, 1, 2))
    assert (first.values, first.jobs) == (again.values, again.jobs)
    assert [job.job for job in first.jobs] != [job.job for job in other.jobs]
    assert first.values["unfinished"] == 0
    most = {job.job: max([size for _, size in job.sizes], default=2) for job in first.jobs}
    assert all(size <= (46 if "gadget" in job else 32) for job, size in most.items())


RESPONSES = {"least": 360.0, "most": 500.0, "moldable": 250.0}


def as_the_paper_says(setting: AnySetting, _metric: str) -> float:
    """Malleability is very beneficial."""
    assert isinstance(setting, Point)
    return RESPONSES.get(setting.policy, 150.0)
