"""KOALA's experiment: its workload, what is common under one seed, and what is measured."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import replace
from itertools import islice, pairwise
from math import isnan
from typing import Any

import pytest

from koala.core.invariants import check
from koala.core.model.actions import Action
from koala.core.model.events import Event
from koala.core.model.values import Instant
from koala.core.scheduler import Scheduler
from koala.errors import ConfigError
from koala.lab.papers.koala.simulation.arrivals import local_jobs, submissions
from koala.lab.papers.koala.simulation.run import over_time, run, world
from koala.lab.papers.koala.simulation.setting import GB, Group, Setting

SMALL = Setting(jobs=40, local_load=0.3, warmup_s=1200.0, lost_at_s=2400.0)


# --- the workload (KOALA 4.2) ---


def test_jobs_are_those_of_the_paper() -> None:
    found = list(submissions(Setting(jobs=4000), 1))
    shapes = Counter((job.spec.processors, len(job.spec.components)) for job in found)
    assert sorted(shapes) == [(36, 3), (36, 4), (72, 3), (72, 4), (72, 6), (72, 8)]
    assert shapes[36, 3] / 4000 == pytest.approx(1 / 4, abs=0.03)
    assert shapes[72, 8] / 4000 == pytest.approx(1 / 8, abs=0.03)
    assert all(component.processors > 8 for job in found for component in job.spec.components)
    assert all(len({c.processors for c in job.spec.components}) == 1 for job in found)
    sizes = Counter(job.spec.input_file.size_bytes for job in found if job.spec.input_file)
    assert sizes[4 * GB] / 4000 == pytest.approx(1 / 2, abs=0.03)
    assert sizes[8 * GB] == 4000 - sizes[4 * GB]
    assert sum(job.spec.priority.value == "high" for job in found) / 4000 == pytest.approx(
        0.5, abs=0.03
    )
    runs = [job.run_s[0] for job in found]
    assert (30 <= min(runs) < 32, 190 < max(runs) <= 192) == (True, True)
    assert sum(runs) / 4000 == pytest.approx(111, abs=3)
    assert all(len(set(job.replicas)) == 2 and len(set(job.run_s)) == 1 for job in found)
    gaps = [later.at - job.at for job, later in pairwise(found)]
    assert sum(gaps) / len(gaps) == pytest.approx(120.0, rel=0.05)


def test_regular_users_offer_their_load() -> None:
    setting = Setting(local_load=0.6)
    found = list(islice(local_jobs(setting, setting.names[0], 130, 3), 20_000))
    work_s = sum(job.processors * job.run_s for job in found)
    assert work_s / (130 * found[-1].at) == pytest.approx(0.6, rel=0.04)
    assert all(job.estimate_s == 2 * job.run_s for job in found)
    assert list(local_jobs(Setting(local_load=0.0), setting.names[0], 130, 3)) == []


# --- a run ---


def test_a_run_keeps_every_promise_at_every_event_and_ends_every_job() -> None:
    seen = Counter[str]()

    def look(scheduler: Scheduler, event: Event, actions: Sequence[Action], now: Instant) -> None:
        seen[type(event).__name__] += 1
        check(scheduler, now)

    the = world(SMALL, 3, watch=look)
    report = the.run()
    assert (report.unfinished, len(report.jobs)) == (0, 40)
    assert all(job.is_finished for job in report.jobs)
    assert seen["TransferFinished"] > 0
    assert sum(job.failures for job in report.jobs) > 0
    held_s = sum(job.processor_wasted_s for job in report.jobs)
    running_s = sum(job.processor_run_s for job in report.jobs)
    assert report.held_s == pytest.approx(held_s)
    assert report.running_s == pytest.approx(running_s)
    assert all(site.queue.idle >= 0 for site in the.grid.sites.values())
    spans = report.spans
    assert spans[0].processors == pytest.approx(310)
    assert all(span.busy <= span.processors + 1e-6 for span in spans)


def test_the_lost_site_is_removed_and_the_others_are_not() -> None:
    found = run(SMALL, 3)
    assert round(found.spans[-1].processors) == 250
    assert found.values[over_time("busy", 0.0)] > 0
    assert isnan(found.values[over_time("busy", 1380.0)])


def test_instants_count_from_the_first_moment_at_which_a_job_may_come() -> None:
    one, other = run(SMALL, 3), run(replace(SMALL, local_load=0.0, warmup_s=0.0), 3)
    assert [job.submitted_at for job in one.jobs] == pytest.approx(
        [job.submitted_at for job in other.jobs]
    )
    assert one.spans[0].begin_at == other.spans[0].begin_at == 0.0


def test_a_run_at_its_horizon_is_broken_off_and_says_so() -> None:
    found = run(replace(SMALL, horizon_s=1000.0), 3)
    assert found.unfinished > 0
    assert isnan(found.values["makespan_s"])


# --- measures ---


def test_measures_of_groups_are_means_over_their_jobs() -> None:
    found = run(SMALL, 4)
    big = [job for job in found.jobs if job.processors == 72 and job.priority == "low"]
    name = str(Group(processors=72, priority="low"))
    assert name == "72.low"
    assert found.values[f"jobs.{name}"] == len(big)
    tries = sum(job.placement_tries for job in big) / len(big)
    assert found.values[f"placement_tries.{name}"] == pytest.approx(tries)
    failures, finished = sum(job.failures for job in big), sum(job.is_finished for job in big)
    assert found.values[f"failures_percent.{name}"] == pytest.approx(
        100 * failures / (failures + finished)
    )
    split = [found.values[f"jobs.{Group(priority=word)}"] for word in ("high", "low")]
    assert sum(split) == found.values["jobs.all"] == 40


# --- bad settings ---


@pytest.mark.parametrize(
    ("change", "text"),
    [
        ({"sizes": (35,)}, "sizes = 35 (expected sizes that one of"),
        ({"sites": ()}, "sites = () (expected processors of each site"),
        ({"lost_site": 5}, "lost_site = 5 (expected 1 to 4, or none"),
        ({"claim_errs": (0.1, 0.2)}, "claim_errs = (0.1, 0.2) (expected probabilities"),
        ({"component_fails": (2.0,)}, "component_fails = (2.0,) (expected"),
        ({"local_load": 1.0}, "local-load = 1.0 (expected 0 or more, below 1"),
        ({"local_sizes": (64,)}, "local_sizes = (64,) (expected 1 to 60"),
        ({"replicas": 5}, "replicas = 5 (expected 1 to 4"),
        ({"run_s": (5.0, 3.0)}, "run_s = (5.0, 3.0) (expected LOW:HIGH"),
        ({"interval_s": 0.0}, "interval = 0.0 (expected more than 0"),
    ],
    ids=lambda value: next(iter(value)) if isinstance(value, dict) else "",
)
def test_a_setting_out_of_bounds_names_the_value_and_what_is_allowed(
    change: dict[str, Any], text: str
) -> None:
    with pytest.raises(ConfigError) as caught:
        Setting(**change)
    assert text in str(caught.value)
