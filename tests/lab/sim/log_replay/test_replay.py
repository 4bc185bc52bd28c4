"""Replays of logs: the definitions job by job, stops, failing processors, figures."""

from __future__ import annotations

import math
from pathlib import Path
from random import Random
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from koala.errors import ConfigError
from koala.lab.sim.log_replay.event_files import read_events
from koala.lab.sim.log_replay.events import Change, check_changes
from koala.lab.sim.log_replay.replay import Replay, ReplaySetting
from koala.lab.sim.log_replay.run import TraceRun
from koala.lab.sim.log_replay.series import BinnedLevel
from koala.lab.sim.log_replay.tally import Distribution
from koala.lab.workload import swf
from koala.lab.workload.arrivals import Overrun
from koala.queue_model import Discipline
from tests.lab.workload.logs import a_log, line
from tests.lrm.reference_queues import PlainQueue, TraceJob, start_times

PROCESSORS = 8


def crowded(seed: int, jobs: int, *, overrun: bool = False) -> list[tuple[int, int, int, int]]:
    """Submit, size, run, estimate: more than the site can take, with ties everywhere."""
    random = Random(seed)
    at = 0
    found = []
    for _ in range(jobs):
        at += random.choice([0, 0, 1, 2, 5])
        run = random.choice([1, 1, 3, 8, 30])
        estimate = max(1, run + random.choice([0, 0, 2, 20, -2 if overrun else 0]))
        found.append((at, random.randint(1, PROCESSORS), run, estimate))
    return found


def a_setting(folder: Path, jobs: list[tuple[int, int, int, int]], **changes: Any) -> ReplaySetting:
    lines = [line(n, at, run, size, estimate=e) for n, (at, size, run, e) in enumerate(jobs)]
    log = a_log(folder, f"; MaxProcs: {PROCESSORS}", *lines)
    given = {"discipline": Discipline.EASY, **changes}
    return ReplaySetting(path=log.path, form=swf.FORMAT, **given)


def replay(setting: ReplaySetting, jobs_out: Path | None = None) -> dict[str, Any]:
    return Replay(setting, jobs_out=jobs_out).run(lambda _: None)


def rows(path: Path) -> list[tuple[int, ...]]:
    header, *lines = path.read_text(encoding="ascii").splitlines()
    assert header.startswith("job,submit,start,end,processors,")
    return [tuple(map(int, each.split(",")[:5])) for each in lines]


@pytest.mark.parametrize("discipline", list(Discipline))
@pytest.mark.parametrize("overrun", list(Overrun))
def test_every_job_starts_when_the_definition_says(
    tmp_path: Path, discipline: Discipline, overrun: Overrun
) -> None:
    jobs = crowded(1, 70, overrun=True)
    replay(a_setting(tmp_path, jobs, discipline=discipline, overrun=overrun), tmp_path / "out.csv")
    seen = []
    for at, size, run, estimate in jobs:
        run_s = min(run, estimate) if overrun is Overrun.KILL else run
        estimate_s = max(run, estimate) if overrun is Overrun.RAISE else estimate
        seen.append(TraceJob(at - jobs[0][0], size, run_s, estimate_s))
    starts = start_times(PlainQueue(discipline, PROCESSORS), seen)
    expected = [
        (n, int(job.submit_at), int(start), int(start + job.run_s), job.processors)
        for n, (job, start) in enumerate(zip(seen, starts, strict=True))
    ]
    found = rows(tmp_path / "out.csv")
    assert sorted(found) == expected
    assert [row[3] for row in found] == sorted(row[3] for row in found), "in order of the ends"


def test_the_figures_are_those_of_the_jobs(tmp_path: Path) -> None:
    """Two jobs by hand: 8 processors for 20 s, then half of them for 5 s after a wait of 10 s."""
    found = replay(a_setting(tmp_path, [(100, 8, 20, 20), (110, 4, 5, 50)]))
    assert found["jobs"] == 2
    assert found["first_submit"] == 100
    assert found["makespan"] == 25
    assert found["utilization"] == (160 + 20) / (8 * 25)
    assert found["waiting_max"] == 1
    assert found["wait"] == {"mean": 5, "p50": 0, "p90": 10, "p95": 10, "p99": 10, "max": 10}
    assert found["response"]["mean"] == 17.5
    assert found["bounded_slowdown"]["mean"] == 1.25  # 20 / 20 and 15 / 10
    assert (found["processors"], found["processors_from"]) == (8, "MaxProcs")
    assert (found["read"], found["stopped"], found["breakpoints"]) == (2, None, [])


def test_an_empty_log_has_no_figures(tmp_path: Path) -> None:
    found = replay(a_setting(tmp_path, [], processors=8))
    assert (found["jobs"], found["makespan"], found["utilization"]) == (0, 0, None)
    assert found["wait"]["mean"] is None


def test_a_log_in_no_order_is_replayed_all_the_same(tmp_path: Path) -> None:
    jobs = [(n, 1, 1, 1) for n in range(12_000)]
    setting = a_setting(tmp_path, [(50_000, 2, 1, 1), *jobs, (3, 8, 1, 1)])
    found = replay(setting, tmp_path / "out.csv")
    assert found["changed"]["out_of_order"] == 2
    assert found["jobs"] == 12_002
    late = {row[0]: row for row in rows(tmp_path / "out.csv")}
    assert late[12_001][1] == 3
    assert late[0][1:3] == (50_000, 50_000)


# Stops --------------------------------------------------------------------------------------------


def test_until_shows_who_runs_and_who_waits_after_that_second(tmp_path: Path) -> None:
    jobs = [(0, 6, 10, 10), (0, 8, 5, 5), (5, 2, 5, 5), (6, 1, 1, 1)]
    found = replay(a_setting(tmp_path, jobs, until=5), tmp_path / "out.csv")
    assert found["stopped"] == {
        "at": 5,
        "arrived": 3,
        "available": 8,
        "busy": 8,
        "running": [
            {"job": 0, "submit": 0, "start": 0, "processors": 6},
            {"job": 2, "submit": 5, "start": 5, "processors": 2},
        ],
        "waiting": [{"job": 1, "submit": 0, "processors": 8}],
    }
    assert found["utilization"] == 30 / 40
    assert rows(tmp_path / "out.csv") == []


def test_a_breakpoint_changes_nothing(tmp_path: Path) -> None:
    """Overruns most of all: a pass more than the definition has could start what must wait."""
    jobs = crowded(2, 200, overrun=True)
    looks = tuple(Change(at=at, is_breakpoint=True) for at in range(0, 400, 7))
    outs = []
    for name, changes in (("plain", ()), ("looked", looks)):
        out = tmp_path / name
        setting = a_setting(tmp_path, jobs, overrun=Overrun.EXTEND, changes=changes)
        found = replay(setting, out)
        outs.append((out.read_bytes(), found["wait"], found["makespan"]))
        assert len(found["breakpoints"]) == len(changes)
    assert outs[0] == outs[1]


# Processors that fail -----------------------------------------------------------------------------


def test_failing_processors_are_idle_ones_first_and_then_the_youngest_jobs(tmp_path: Path) -> None:
    jobs = [(0, 3, 10, 10), (1, 2, 10, 10), (2, 1, 10, 10)]  # 2 idle
    changes = (Change(at=5, failing=3), Change(at=8, returning=3))
    found = replay(a_setting(tmp_path, jobs, changes=changes), tmp_path / "out.csv")
    assert rows(tmp_path / "out.csv") == [(2, 2, 2, 5, 1), (0, 0, 0, 10, 3), (1, 1, 1, 11, 2)]
    assert (found["killed"], found["jobs"]) == (1, 2)
    assert found["utilization"] == pytest.approx((30 + 20 + 3) / (8 * 11), abs=1e-6)


def test_a_job_that_is_put_back_runs_again_before_those_that_wait(tmp_path: Path) -> None:
    jobs = [(0, 5, 10, 10), (1, 3, 10, 10), (2, 4, 2, 2)]
    changes = (Change(at=5, failing=4, is_requeued=True), Change(at=12, returning=4))
    found = replay(
        a_setting(tmp_path, jobs, changes=changes, discipline=Discipline.FCFS),
        tmp_path / "out.csv",
    )
    # At 5 the second job frees 3 and the first 5 more; then 4 are left, so the first waits.
    assert rows(tmp_path / "out.csv") == [(0, 0, 12, 22, 5), (1, 1, 12, 22, 3), (2, 2, 22, 24, 4)]
    assert (found["requeued"], found["killed"], found["jobs"]) == (2, 0, 3)


def test_completions_come_before_a_failure_of_the_same_second_and_arrivals_after_it(
    tmp_path: Path,
) -> None:
    jobs = [(0, 8, 5, 5), (5, 8, 5, 5), (5, 4, 5, 5)]
    changes = (Change(at=5, failing=4),)
    found = replay(
        a_setting(tmp_path, jobs, changes=changes, discipline=Discipline.EASY),
        tmp_path / "out.csv",
    )
    # The second can never start; with EASY, what fits passes a head for which nothing is left.
    assert rows(tmp_path / "out.csv") == [(0, 0, 0, 5, 8), (2, 5, 5, 10, 4)]
    assert found["never_started"] == 1


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ((Change(at=1, failing=9),), "event at 1: 9 processors fail; 8 are in order"),
        ((Change(at=1, failing=5), Change(at=2, failing=4)), "event at 2: 4 processors fail; 3"),
        ((Change(at=3, returning=1),), "event at 3: 1 processors return; 0 have failed"),
    ],
)
def test_impossible_changes_are_refused(changes: tuple[Change, ...], words: str) -> None:
    with pytest.raises(ConfigError, match=words):
        check_changes(changes, 8)


def test_a_file_of_events_is_read_in_order_of_time(tmp_path: Path) -> None:
    path = tmp_path / "events.toml"
    path.write_text(
        """
        [[event]]
        at = 90
        return = 4
        [[event]]
        at = 50
        breakpoint = "stop"
        [[event]]
        at = 50
        fail = 4
        jobs = "requeue"
        """,
        encoding="utf-8",
    )
    assert read_events(path) == (
        Change(at=50, failing=4, is_requeued=True),
        Change(at=50, is_breakpoint=True, is_stop=True),
        Change(at=90, returning=4),
    )


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("[[event]]\nat = 5", "event at 5 needs one of fail, return and breakpoint"),
        ("[[event]]\nat = 5\nfail = 1\nreturn = 1", "needs one of"),
        ("[[event]]\nat = -5\nfail = 1", "Expected `int` >= 0"),
        ("[[event]]\nat = 5\nfail = 1\njob = 'kill'", "unknown field `job`"),
        ("[[event]]\nat = 5\nfail = 1\njobs = 'keep'", "Invalid enum value 'keep'"),
        ("at =", "events.toml"),
        ("# Universit\xe9", "events.toml: .*utf-8"),
    ],
)
def test_a_wrong_file_of_events_is_refused(tmp_path: Path, text: str, words: str) -> None:
    path = tmp_path / "events.toml"
    path.write_text(text, encoding="latin-1")
    with pytest.raises(ConfigError, match=words):
        read_events(path)


# Figures ------------------------------------------------------------------------------------------


@given(st.lists(st.integers(0, 10**9), min_size=1), st.sampled_from([1, 50, 90, 99, 100]))
def test_percentiles_are_right_within_their_precision(values: list[int], percent: int) -> None:
    found = Distribution()
    found.add(values[: len(values) // 2])
    found.add(values[len(values) // 2 :])
    exact = sorted(values)[max(1, math.ceil(len(values) * percent / 100)) - 1]
    assert exact * (1 - 1 / 2_048) <= found.percentiles((percent,))[0] <= exact
    assert found.total == sum(values)
    assert found.largest == max(values)


def test_small_values_are_counted_exactly() -> None:
    found = Distribution()
    found.add([0, 5, 4_095])
    assert sorted(found.values) == [0, 5, 4_095]


@settings(max_examples=30)
@given(
    st.lists(
        st.tuples(st.integers(0, 5_000), st.integers(1, 3_000), st.integers(1, 9)), max_size=30
    )
)
def test_a_level_has_the_area_of_all_that_was_added(spans: list[tuple[int, int, int]]) -> None:
    level = BinnedLevel()
    for begin, length, amount in spans:
        level.add(begin, begin + length, amount)
    area = sum(length * amount for _, length, amount in spans)
    assert sum(level.means()) * level.width == pytest.approx(area)
    for index, mean in enumerate(level.means()):
        low, high = index * level.width, (index + 1) * level.width
        inside = sum(
            max(0, min(high, begin + length) - max(low, begin)) * amount
            for begin, length, amount in spans
        )
        assert mean * level.width == pytest.approx(inside)


@pytest.mark.parametrize(
    ("days", "width_s"),
    [(0.004, 1), (0.2, 60), (2, 600), (12, 3_600), (365, 86_400), (999, 604_800)],
)
def test_a_level_of_a_year_has_a_mean_for_each_day(days: float, width_s: int) -> None:
    level = BinnedLevel()
    level.add(0, int(days * 86_400), 3)
    assert level.width == width_s
    assert level.means()[: int(days * 86_400) // width_s - 1] == pytest.approx(
        [3] * (int(days * 86_400) // width_s - 1)
    )


def test_a_run_reads_no_further_than_it_must() -> None:
    """Streaming: one job beyond the present instant, no more."""
    asked = 0

    def arrivals() -> Any:
        nonlocal asked
        for number in range(100):
            asked += 1
            yield (number * 10, number, 1, 1, 1)

    run = TraceRun(arrivals(), processors=1, discipline=Discipline.FCFS)
    run.go(35)
    assert asked == 5
    assert run.arrived == 4
