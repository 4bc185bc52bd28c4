"""From a log to arrivals: what is dropped, filled in, cut and counted; and the order."""

from __future__ import annotations

from pathlib import Path
from random import Random

import pytest

from koala.errors import WorkloadError
from koala.lab.workload.arrivals import Arrival, Arrivals, DisorderError, Overrun, Summary, machine
from tests.lab.workload.logs import a_log, line


def read(
    folder: Path, *lines: str, processors: int = 8, overrun: Overrun = Overrun.RAISE
) -> tuple[list[Arrival], Summary]:
    found = Arrivals(a_log(folder, *lines), processors=processors, overrun=overrun)
    jobs = [job for block in found.blocks() for job in block]
    assert [job for block in found.sorted_blocks() for job in block] == jobs
    return jobs, found.summary


def test_what_cannot_be_replayed_is_dropped_and_counted_once(tmp_path: Path) -> None:
    jobs, summary = read(
        tmp_path,
        line(1, 3, 5, 0, requested=-1),  # no size
        line(2, 3, 5, -1, requested=0),
        line(3, 3, -1, 2),  # no run time
        line(4, -1, 5, 2),  # no submit time
        line(5, 3, 5, 9),  # too large
        line(6, -1, -1, -1),  # no size comes first
        line(7, 10, 5, 2),
    )
    assert jobs == [(0, 7, 2, 5, 5)]
    assert summary.dropped == {
        "without_size": 3, "without_run_time": 1, "without_submit_time": 1, "too_large": 1,
    }  # fmt: skip
    assert (summary.read, summary.kept) == (7, 1)


def test_what_is_not_known_is_filled_in_and_counted(tmp_path: Path) -> None:
    jobs, summary = read(
        tmp_path,
        line(1, 0, 0, 1, estimate=30),  # no time at all becomes a second
        line(2, 0, 5, -1, requested=4, estimate=0),  # the size that was asked for; no estimate
        line(3, 0, 5, 2, requested=4, estimate=5),
        line(4, 0, 0, 1, estimate=-1),
        line(5, 0, 7.5, 1, estimate=3),  # ran over it
    )
    assert jobs == [
        (0, 1, 1, 1, 30), (0, 2, 4, 5, 5), (0, 3, 2, 5, 5), (0, 4, 1, 1, 1), (0, 5, 1, 7, 7),
    ]  # fmt: skip
    assert summary.changed == {
        "run_time_zero": 2, "estimate_missing": 2, "over_estimate": 1, "fractions_cut": 1,
        "out_of_order": 0,
    }  # fmt: skip


@pytest.mark.parametrize(
    ("overrun", "run", "estimate"),
    [(Overrun.RAISE, 7, 7), (Overrun.KILL, 3, 3), (Overrun.EXTEND, 7, 3)],
)
def test_a_job_over_its_estimate(tmp_path: Path, overrun: Overrun, run: int, estimate: int) -> None:
    jobs, summary = read(tmp_path, line(1, 0, 7, 1, estimate=3), overrun=overrun)
    assert jobs == [(0, 1, 1, run, estimate)]
    assert summary.over_estimate == 1


def test_the_first_job_that_is_kept_is_submitted_at_0(tmp_path: Path) -> None:
    log = a_log(tmp_path, line(1, 100, 1, 0), line(2, 150, 1), line(3, 175, 1))
    found = Arrivals(log, processors=8)
    assert [job[0] for block in found.blocks() for job in block] == [0, 25]
    assert found.shift == 150


def test_jobs_come_in_order_of_submission_and_then_of_the_log(tmp_path: Path) -> None:
    jobs, summary = read(
        tmp_path, line(1, 10, 1), line(2, 5, 1), line(3, 10, 1), line(4, 5, 1), line(5, 5, 1)
    )
    assert [job[:2] for job in jobs] == [(0, 2), (0, 4), (0, 5), (5, 1), (5, 3)]
    assert summary.out_of_order == 2


def test_a_log_in_no_order_is_refused_by_the_window_and_sorted_in_portions(
    tmp_path: Path,
) -> None:
    random = Random(5)
    submits = [random.randrange(10_000) for _ in range(15_000)]
    log = a_log(tmp_path, *(line(n, submit, 1) for n, submit in enumerate(submits)))
    found = Arrivals(log, processors=8)
    with pytest.raises(DisorderError, match="not in order"):
        list(found.blocks(window=100))
    jobs = [job for block in found.sorted_blocks(portion=2_000) for job in block]
    first = min(submits)
    assert [job[:2] for job in jobs] == sorted((s - first, n) for n, s in enumerate(submits))
    assert found.summary.read == 15_000
    assert found.shift == first


def test_disorder_within_the_window_is_mended_over_the_borders_of_blocks(tmp_path: Path) -> None:
    random = Random(6)
    submits = [n + random.randrange(300) for n in range(20_000)]
    log = a_log(tmp_path, *(line(n, submit, 1) for n, submit in enumerate(submits)))
    jobs = [job for block in Arrivals(log, processors=8).blocks(window=400) for job in block]
    first = min(submits)
    assert [job[:2] for job in jobs] == sorted((s - first, n) for n, s in enumerate(submits))


@pytest.mark.parametrize(
    ("lines", "expected"),
    [
        (("; MaxNodes: 4", "; MaxProcs: 16"), (16, "MaxProcs")),
        (("; MaxNodes: 4", "; MaxProcs: -1"), (4, "MaxNodes")),
        ((), (6, "the largest job")),
    ],
)
def test_the_machine_is_what_the_log_says(
    tmp_path: Path, lines: tuple[str, ...], expected: tuple[int, str]
) -> None:
    log = a_log(tmp_path, *lines, line(1, 0, 1, 6), line(2, 0, -1, 99), line(3, 0, 1, 2))
    assert machine(log, log.header()) == expected


def test_a_log_without_a_job_has_no_machine(tmp_path: Path) -> None:
    log = a_log(tmp_path, line(1, 0, -1, 6))
    with pytest.raises(WorkloadError, match=r"could be replayed \(1 read, without run time 1\)"):
        machine(log, log.header())
