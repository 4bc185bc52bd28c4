"""Synthetic logs: the moments of their models."""

from __future__ import annotations

from itertools import islice, pairwise
from math import e, log, log2
from random import Random
from statistics import fmean

import pytest

from koala.lab.workload import lublin, papers
from koala.lab.workload.distributions import SizeDistribution

JOBS = 20_000


def drawn(*kinds: lublin.Parameters, seed: int = 1, jobs: int = JOBS) -> list[lublin.Job]:
    return list(islice(lublin.jobs(*kinds, random=Random(seed)), jobs))


def near(values: list[float], expected: float) -> bool:
    """Within four standard errors."""
    mean = fmean(values)
    spread = fmean([(value - mean) ** 2 for value in values]) ** 0.5
    return bool(abs(mean - expected) < 4 * spread / len(values) ** 0.5)


@pytest.mark.parametrize("kind", [lublin.ALL, lublin.BATCH, lublin.INTERACTIVE])
def test_sizes_are_serial_powers_of_two_or_two_stage_uniform(kind: lublin.Parameters) -> None:
    sizes = [job.processors for job in drawn(kind)]
    assert near([size == 1 for size in sizes], kind.serial)
    assert max(sizes) <= 2**kind.high + 0.5
    # log2 of those that are not rounded is uniform below and above the middle, which gives the
    # mean of all but the rounding, which moves it little.
    below, above = (kind.low + kind.middle) / 2, (kind.middle + kind.high) / 2
    expected = kind.share_below * below + (1 - kind.share_below) * above
    parallel = [log2(size) for size in sizes if size > 1]
    assert fmean(parallel) == pytest.approx(expected, abs=0.1)
    powers = [size & (size - 1) == 0 for size in sizes]
    assert fmean(powers) > kind.serial + kind.power_of_two - 0.01


def test_arrivals_follow_the_cycle_of_the_day() -> None:
    weights = lublin.half_hour_weights(lublin.ALL.over_day)
    assert fmean(weights) == pytest.approx(1)
    busiest = weights.index(max(weights))
    assert 22 <= busiest <= 34, "between 11 and 17 o'clock"
    seen = [0] * lublin.HALF_HOURS
    for job in drawn(lublin.ALL, jobs=60_000):
        seen[job.submit_at // lublin.HALF_HOUR_S % lublin.HALF_HOURS] += 1
    shares = [count / 60_000 * lublin.HALF_HOURS for count in seen]
    assert shares == pytest.approx(weights, abs=0.25)


def test_moments_are_those_of_a_log_that_its_authors_program_wrote() -> None:
    """On 256 processors, 10,000 jobs: its mean size was 22.1 processors, the mean logarithm of run
    times 5.73 and of the times between arrivals 4.91, a quarter was serial."""
    jobs = drawn(lublin.ALL.on(256), seed=3)
    between = [after.submit_at - before.submit_at for before, after in pairwise(jobs)]
    assert fmean(job.processors for job in jobs) == pytest.approx(22.1, abs=1.0)
    assert fmean(log(job.run_s + 1) for job in jobs) == pytest.approx(5.73, abs=0.08)
    assert fmean(log(one + 1) for one in between) == pytest.approx(4.91, abs=0.08)
    assert fmean(job.processors == 1 for job in jobs) == pytest.approx(0.249, abs=0.015)


def test_kinds_arrive_in_order_and_have_their_own_parameters() -> None:
    jobs = drawn(lublin.BATCH, lublin.INTERACTIVE)
    assert [job.submit_at for job in jobs] == sorted(job.submit_at for job in jobs)
    for is_batch, kind in ((True, lublin.BATCH), (False, lublin.INTERACTIVE)):
        serial = [job.processors == 1 for job in jobs if job.is_batch == is_batch]
        assert len(serial) > 1_000
        assert near(list(map(float, serial)), kind.serial)


@pytest.mark.parametrize("processors", [2, 3, 100, 1_000])
def test_no_job_is_larger_than_its_machine(processors: int) -> None:
    sizes = {job.processors for job in drawn(lublin.ALL.on(processors), jobs=3_000)}
    assert min(sizes) >= 1
    assert max(sizes) <= processors


def test_one_seed_gives_one_log() -> None:
    assert drawn(lublin.ALL, seed=5, jobs=50) == drawn(lublin.ALL, seed=5, jobs=50)
    assert drawn(lublin.ALL, seed=5, jobs=50) != drawn(lublin.ALL, seed=6, jobs=50)


def test_the_papers_users_offer_the_load_that_was_asked_for() -> None:
    sizes = SizeDistribution(low=1, high=32, q=0.9)
    stream = papers.jobs(sizes, processors=32, run_mean_s=600, utilization=0.7, random=Random(4))
    jobs = list(islice(stream, 40_000))
    assert near([float(job[1]) for job in jobs], sizes.mean)
    assert near([float(job[2]) for job in jobs], 600)
    load = sum(size * run for _, size, run in jobs) / (32 * jobs[-1][0])
    assert load == pytest.approx(0.7, abs=0.02)
    gaps = [after[0] - before[0] for before, after in pairwise(jobs)]
    mean = fmean(gaps)
    assert fmean(gap > mean for gap in gaps) == pytest.approx(1 / e, abs=0.01), "exponential"
