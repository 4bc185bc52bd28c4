"""Logs on whole multiclusters: how jobs are split, and a log small enough to follow by hand."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from koala.core.model.grid import SiteFacts
from koala.core.model.parameters import Parameters
from koala.core.model.values import SiteName
from koala.errors import ConfigError
from koala.lab.sim.experiment.setting import LocalJob, SiteSetting
from koala.lab.sim.experiment.world import ExperimentReport
from koala.lab.sim.log_replay.multicluster import GridJob, GridReplay, Multicluster, rule
from koala.lab.workload import swf
from koala.lab.workload.arrivals import Arrivals
from koala.lab.workload.logs import Log
from koala.policies import chosen
from tests.cli.command import koala_here

DAS = (144, 64, 64, 64, 64)


@pytest.mark.parametrize(
    ("word", "size", "parts"),
    [
        ("equal", 64, (64,)),
        ("equal", 144, (144,)),
        ("equal", 145, (49, 48, 48)),
        ("equal", 200, (50, 50, 50, 50)),
        ("equal", 400, (16,) * 25),
        ("equal", 401, None),
        ("fill", 100, (100,)),
        ("fill", 200, (144, 56)),
        ("fill", 400, DAS),
        ("fill", 401, None),
        ("32", 32, (32,)),
        ("32", 33, (17, 16)),
        ("32", 300, (30,) * 10),
    ],
)
def test_a_job_is_split_by_the_rule(word: str, size: int, parts: tuple[int, ...] | None) -> None:
    assert rule(word)(size, DAS) == parts


@given(st.sampled_from(["equal", "fill", "16"]), st.integers(1, 401))
def test_whatever_is_split_fits_the_empty_grid_and_loses_no_processor(word: str, size: int) -> None:
    parts = rule(word)(size, DAS)
    if parts is None:
        assert size > sum(DAS)
        return
    assert sum(parts) == size
    left = list(DAS)
    for part in sorted(parts, reverse=True):
        left[left.index(max(left))] -= part
    assert min(left) >= 0


@pytest.mark.parametrize("word", ["half", "0", "-3", ""])
def test_an_unknown_rule_is_refused_with_those_there_are(word: str) -> None:
    with pytest.raises(ConfigError, match="expected one of equal, fill"):
        rule(word)


def replayed(path: Path, jobs: list[tuple[int, int, int, int]], **options: Any) -> GridReplay:
    """A replay of (number, submit, processors, run time) on two FCFS sites of 8 and 4."""
    lines = (
        f"{number} {at} -1 {run} {processors} -1 -1 {processors} {run} -1 1 1 1 1 1 1 -1 -1\n"
        for number, at, processors, run in jobs
    )
    path.write_text("".join(lines), encoding="utf-8")
    arrivals = Arrivals(Log(path, swf.FORMAT), processors=1 << 62)
    grid_jobs = (GridJob(*job) for block in arrivals.sorted_blocks() for job in block)
    return GridReplay(two_sites(**options), grid_jobs, summary=lambda: arrivals.summary)


def two_sites(*, local_jobs: Sequence[LocalJob] = ()) -> Multicluster:
    """FCFS sites of 8 processors, with local jobs, and of 4."""
    sites = tuple(
        SiteSetting(
            name=SiteName(name),
            facts=SiteFacts(processors=processors, grace_s=1.0),
            local_jobs=local_jobs if name == "large" else (),
        )
        for name, processors in (("large", 8), ("small", 4))
    )
    return Multicluster(
        sites=sites, parameters=Parameters(), policies=chosen(), split=rule("equal")
    )


def started(report: ExperimentReport) -> dict[str, tuple[float | None, tuple[str, ...]]]:
    """Start, in whole seconds (a start takes a moment), and sites of each job."""
    return {
        job.job: (None if job.started_at is None else round(job.started_at), job.sites)
        for job in report.jobs
    }


def test_a_log_that_can_be_followed_by_hand(tmp_path: Path) -> None:
    """Job 2 is too large for one site and waits until job 1 has left the large one; job 3 fits
    beside job 1 and starts at once; job 4 is too large for all and is dropped."""
    jobs = [(1, 0, 6, 100), (2, 10, 12, 50), (3, 20, 2, 30), (4, 25, 13, 10)]
    replay = replayed(tmp_path / "log.swf", jobs)
    report = replay.run()
    assert started(report) == {
        "1": (0, ("large",)),
        "2": (100, ("large", "large", "small")),
        "3": (20, ("small",)),
    }
    found = replay.document(report)
    assert (found["jobs"], found["finished"], found["split_jobs"], found["coallocated"]) == (
        3,
        3,
        1,
        1,
    )
    assert found["dropped"]["too_large"] == 1
    # 6 x 100 + 12 x 50 + 2 x 30 processor-seconds of 12 processors until 150
    assert found["utilization"] == pytest.approx(1260 / (12 * 150), rel=0.01)
    assert found["wait"]["mean"] == pytest.approx(30, abs=0.5)
    assert found["wait_split"]["mean"] == pytest.approx(90, abs=0.5)


def test_the_scheduler_splits_jobs_over_what_is_idle() -> None:
    """Job 1 leaves 2 of the large site and 4 of the small one, to which job 2 is split at once;
    job 3 waits until 12 are idle."""
    jobs = [
        GridJob(0.0, 1, 6, 100.0, 100.0),
        GridJob(10.0, 2, 5, 50.0, 50.0),
        GridJob(20.0, 3, 12, 10.0, 10.0),
        GridJob(30.0, 4, 13, 10.0, 10.0),
    ]
    setting = replace(two_sites(), split=rule("flexible"), until=1_000.0)
    replay = GridReplay(setting, iter(jobs))
    report = replay.run()
    assert started(report) == {
        "1": (0, ("large",)),
        "2": (10, ("small", "large")),
        "3": (100, ("large", "small")),
    }
    assert (replay.document(report)["split_jobs"], replay.too_large) == (2, 1)


def test_a_job_of_a_queue_runs_at_its_site_or_is_dropped() -> None:
    """Job 1 could start at once on the large site; job 2 does not fit at its own; job 3 is of two
    components, which run anywhere."""
    jobs = [
        GridJob(0.0, 0, 4, 50.0, 50.0, queue="small"),
        GridJob(1.0, 1, 4, 50.0, 50.0, queue="small"),
        GridJob(2.0, 2, 5, 50.0, 50.0, queue="small"),
        GridJob(60.0, 3, (6, 4), 10.0, 10.0, queue="small"),
    ]
    replay = GridReplay(replace(two_sites(), until=1_000.0), iter(jobs))
    assert started(replay.run()) == {
        "0": (0, ("small",)),
        "1": (50, ("small",)),
        "3": (100, ("large", "small")),
    }
    assert replay.too_large == 1
    unknown = GridReplay(two_sites(), iter([jobs[0]._replace(queue="smal")]))
    with pytest.raises(ConfigError, match=r"job 0: queue smal \(expected large, small\)"):
        unknown.run()


def test_local_users_take_what_is_theirs(tmp_path: Path) -> None:
    users = [LocalJob(0.0, 8, 40.0, 40.0)]
    replay = replayed(tmp_path / "log.swf", [(1, 10, 6, 5)], local_jobs=users)
    report = replay.run()
    assert started(report)["1"] == (40, ("large",))
    assert replay.document(report)["sites"]["large"] == {"local_jobs": 1, "local_finished": 1}


def test_numbers_that_a_log_gives_twice_are_two_jobs(tmp_path: Path) -> None:
    report = replayed(tmp_path / "log.swf", [(1, 0, 1, 5), (1, 3, 1, 5)]).run()
    assert started(report) == {"1": (0, ("large",)), "1.1": (3, ("large",))}


def test_the_command_replays_a_log_on_the_sites_of_a_grid_file(tmp_path: Path) -> None:
    log, grid = tmp_path / "log.swf", tmp_path / "grid.toml"
    log.write_text(
        "1 0 -1 100 6 -1 -1 6 100 -1 1 1 1 1 1 1 -1 -1\n"
        "2 10 -1 50 12 -1 -1 12 50 -1 1 1 1 1 1 1 -1 -1\n",
        encoding="utf-8",
    )
    grid.write_text(
        "[sites.large.site]\nprocessors = 8\n[sites.small.site]\nprocessors = 4\n", encoding="utf-8"
    )
    words = ("simulate", "trace", str(log), "--grid", str(grid), "--json")
    done = koala_here(*words, "--jobs-out", str(tmp_path / "jobs.csv"))
    assert done.returncode == 0, done.stderr
    found = json.loads(done.stdout)
    assert (found["finished"], found["split_jobs"], found["processors"]) == (2, 1, 12)
    assert len((tmp_path / "jobs.csv").read_text().splitlines()) == 3
    wrong = koala_here(*words, "--policy", "fcfs")
    assert (wrong.returncode, wrong.stdout) == (2, "")
    assert "--policy fcfs: not allowed with --grid" in wrong.stderr
    assert "expected one of equal, fill" in koala_here(*words, "--split", "").stderr
