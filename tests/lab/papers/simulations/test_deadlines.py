"""The deadlines paper's simulation: by hand, and against what is known exactly."""

from __future__ import annotations

from dataclasses import replace
from math import inf, isnan
from typing import Any

import pytest

from koala.errors import ConfigError
from koala.lab.papers.deadlines.simulation.arrivals import (
    GlobalArrival,
    LocalArrival,
)
from koala.lab.papers.deadlines.simulation.counting import Outcome, Summary, summarize
from koala.lab.papers.deadlines.simulation.run import simulate, simulate_jobs
from koala.lab.papers.deadlines.simulation.setting import Setting

SHORT = Setting(time_s=60_000, warmup_s=6_000)
TWO = Setting(sites=(4, 4), sizes=(1, 4), time_s=3_000, warmup_s=0, wait_s=inf, fraction=0.5)
"""Two sites of four processors; half the way to the deadline for each try."""


def trace(
    setting: Setting, local: list[list[LocalArrival]], jobs: list[GlobalArrival]
) -> tuple[list[Outcome], dict[str, float]]:
    """Return the outcomes of these jobs, and the processor-seconds."""
    outcomes: list[Outcome] = []
    batches = simulate_jobs(setting, local, jobs, outcomes.append)
    areas = {
        name: sum(getattr(tally, f"{name}_area") for tally in batches)
        for name in ("local", "global", "claimed")
    }
    return outcomes, areas


def only(outcomes: list[Outcome], kind: str) -> list[Outcome]:
    return [outcome for outcome in outcomes if outcome.kind == kind]


# --- by hand ---


def test_local_jobs_make_room_the_youngest_first_and_no_more_than_needed() -> None:
    """Site 0 runs 1 + 1 + 2 processors, site 1 four. 3 processors: both have none idle, so site 0,
    where the job of 2 goes, then one of 1. The queued job of 1 takes what is left over: nothing.
    """
    local = [
        [LocalArrival(1, 1, 500), LocalArrival(2, 1, 500), LocalArrival(3, 2, 500)],
        [LocalArrival(1, 4, 500)],
    ]
    job = GlobalArrival(at=0, deadline_at=100, components=1, processors=3, run_s=50)
    outcomes, areas = trace(replace(TWO, components=(1, 1)), local, [job])
    killed = [(o.submitted_at, o.ended_at) for o in outcomes if o.outcome == "killed"]
    assert killed == [(3, 100), (2, 100)]
    assert only(outcomes, "global")[0].sites == (0,)
    assert areas["local"] == pytest.approx(500 + 98 + 2 * 97 + 4 * 500)


def test_the_oldest_local_jobs_make_room_if_that_is_asked_for() -> None:
    """The jobs of 1 that started first go first; then that of 2 has to go as well."""
    local = [
        [LocalArrival(1, 1, 500), LocalArrival(2, 1, 500), LocalArrival(3, 2, 500)],
        [LocalArrival(1, 4, 500)],
    ]
    job = GlobalArrival(at=0, deadline_at=100, components=1, processors=2, run_s=50)
    for is_oldest_first, killed in ((True, [1, 2]), (False, [3])):
        setting = replace(TWO, components=(1, 1), is_oldest_first=is_oldest_first)
        outcomes, _ = trace(setting, local, [job])
        assert [o.submitted_at for o in outcomes if o.outcome == "killed"] == killed


def test_what_a_kill_frees_beyond_need_is_offered_to_the_local_queue_at_once() -> None:
    """A job of 4 dies for a component of 3; the queue's head, of 1, starts at that instant."""
    local = [[LocalArrival(1, 4, 500), LocalArrival(2, 1, 10)], [LocalArrival(1, 4, 500)]]
    job = GlobalArrival(at=0, deadline_at=100, components=1, processors=3, run_s=50)
    outcomes, _ = trace(replace(TWO, components=(1, 1)), local, [job])
    assert [(o.outcome, o.started_at) for o in outcomes if o.submitted_at == 2] == [
        ("completed", 100)
    ]


def test_nobody_is_killed_unless_all_components_can_be_placed() -> None:
    """Site 1 is taken by another global job, which is never killed: two components of 4 have no
    room, so the local job of site 0 lives.
    """
    local = [[LocalArrival(60, 4, 500)], [LocalArrival(0, 2, 20), LocalArrival(60, 4, 500)]]
    first = GlobalArrival(at=0, deadline_at=100, components=2, processors=2, run_s=300)
    second = GlobalArrival(at=110, deadline_at=200, components=2, processors=4, run_s=10)
    outcomes, _ = trace(TWO, local, [first, second])
    assert [o.outcome for o in only(outcomes, "global")] == ["started", "failed"]
    assert not [o for o in outcomes if o.outcome == "killed"]


def test_a_killed_job_may_go_back_to_the_head_of_its_queue() -> None:
    """It runs again from its beginning, before the one that waited longer in the queue."""
    local = [[LocalArrival(1, 4, 120), LocalArrival(2, 4, 10)], [LocalArrival(1, 4, 900)]]
    job = GlobalArrival(at=0, deadline_at=100, components=1, processors=4, run_s=50)
    setting = replace(TWO, components=(1, 1), is_requeued=True)
    outcomes, _ = trace(setting, local, [job])
    found = [(o.submitted_at, o.outcome, o.started_at, o.ended_at) for o in only(outcomes, "local")]
    assert found == [
        (1, "killed", 1, 100),
        (1, "completed", 150, 270),
        (2, "completed", 270, 280),
        (1, "completed", 1, 901),
    ]


def test_what_happens_in_the_window_counts_whenever_its_job_came() -> None:
    """The window is 100 to 400: a deadline at 99 and a response at 50 are outside."""
    local = [[LocalArrival(0, 1, 50), LocalArrival(90, 1, 30), LocalArrival(399, 1, 30)], []]
    jobs = [
        GlobalArrival(at=0, deadline_at=99, components=2, processors=1, run_s=1),
        GlobalArrival(at=1, deadline_at=101, components=2, processors=1, run_s=1),
    ]
    setting = replace(TWO, warmup_s=100, time_s=400)
    found = summarize(setting, [simulate_jobs(setting, local, jobs)])
    assert (found.deadlines, found.local_jobs) == (1, 1)
    assert found.metrics["local_response"].mean == pytest.approx(30)
    assert found.metrics["local_load"].mean == pytest.approx(100 * (20 + 1) / (8 * 300))
    assert found.metrics["wasted"].mean == pytest.approx(100 * 2 * 1 / (8 * 300))


# --- against what is known exactly ---


def erlang_b(servers: int, load: float) -> float:
    blocked = 1.0
    for n in range(1, servers + 1):
        blocked = load * blocked / (n + load * blocked)
    return blocked


def close(found: Summary, name: str, expected: float) -> bool:
    """Twice the 95 % interval: a right program misses it once in ten thousand seeds."""
    metric = found.metrics[name]
    return abs(metric.mean - expected) < 2 * metric.ci95


WHOLE = Setting(
    components=(1, 1), sizes=(32, 32), local_sizes=(32, 32), time_s=800_000, warmup_s=20_000
)
"""Jobs that take a whole cluster."""


@pytest.mark.slow
@pytest.mark.parametrize(("fraction", "load"), [(0.5, 0.6), (1.0, 0.8)])
def test_one_try_and_no_local_load_is_erlangs_loss_system(fraction: float, load: float) -> None:
    """Four servers; a job holds one from its only try to its end."""
    setting = replace(
        WHOLE,
        at_deadline="fail", wait_s=inf, fraction=fraction, tries_max=0,
        lead_s=(1, 599), local_load=0.0, global_load=load,
    )  # fmt: skip
    found = summarize(setting, [simulate(setting, 1)])
    offered = setting.global_rate * (200 + (1 - fraction) * 300)
    success = 100 * (1 - erlang_b(4, offered))
    assert close(found, "success_rate", success), (found.metrics["success_rate"], success)
    if fraction < 1:
        wasted = setting.global_rate * success * (1 - fraction) * 300 * 32 / 128
        assert close(found, "wasted", wasted)
    assert isnan(found.metrics["local_kill_rate"].mean)


def test_the_papers_arrival_rates_follow_from_the_loads() -> None:
    """E[Sl] = 6.95, E[Sg] = 10.44, three components in the mean (Deadlines 3.1)."""
    assert Setting().local_rate(32) == pytest.approx(0.3 * 0.01 * 32 / 6.949774)
    assert Setting().global_rate == pytest.approx(0.2 * 0.005 * 128 / (3 * 10.443726))


# --- the run ---


@pytest.mark.parametrize(
    ("change", "text"),
    [
        ({"fraction": 0.0}, r"lp = 0.0 \(expected more than 0"),
        ({"tries_max": -1}, "mp = -1"),
        ({"wait_s": -1.0}, "wait = -1.0"),
        ({"sites": (16, 32), "sizes": (4, 32)}, "sizes = 4:32 .* 16, the smallest site"),
        ({"sites": (32,)}, "components = 2:1"),
        ({"warmup_s": 60_000.0}, "time = 60000"),
        ({"lead_s": (5.0, 1.0)}, "lead"),
        ({"at_deadline": "GP"}, r"expected kill, fail\)"),
    ],
)
def test_a_setting_out_of_bounds_is_refused(change: dict[str, Any], text: str) -> None:
    with pytest.raises(ConfigError, match=text):
        replace(SHORT, **change)
