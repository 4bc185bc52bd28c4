"""Synthetic local users."""

from __future__ import annotations

import random
from itertools import islice

import pytest

from koala.errors import ConfigError
from koala.queue_model.local_users import LoadParameters, _weight, local_jobs


def mean_size(load: LoadParameters) -> float:
    """E[size] of D(q) on the interval."""
    weights = {size: _weight(size, load.size_q) for size in range(load.size_min, load.size_max + 1)}
    return sum(size * weight for size, weight in weights.items()) / sum(weights.values())


@pytest.mark.parametrize(
    ("smallest", "largest", "expected"),
    [(1, 8, 3.492941), (1, 32, 6.949774), (4, 32, 10.443726)],
)
def test_the_mean_size_is_that_of_the_paper(smallest: int, largest: int, expected: float) -> None:
    """Known values of E[size] of D(0.9)."""
    load = LoadParameters(arrivals_per_hour=1, size_min=smallest, size_max=largest)
    assert mean_size(load) == pytest.approx(expected, abs=2e-6)


def test_jobs_follow_their_parameters() -> None:
    load = LoadParameters(
        arrivals_per_hour=120, run_mean_s=300, run_max_s=2000, size_min=2, size_max=8
    )
    jobs = list(islice(local_jobs(load, random.Random(5)), 4000))
    assert jobs == sorted(jobs, key=lambda job: job.submit_at)
    assert jobs[-1].submit_at == pytest.approx(4000 * 30, rel=0.05)
    assert {job.processors for job in jobs} == set(range(2, 9))
    assert sum(job.processors for job in jobs) / 4000 == pytest.approx(mean_size(load), rel=0.05)
    assert sum(job.run_s for job in jobs) / 4000 == pytest.approx(300, rel=0.05)
    assert all(job.run_s <= job.estimate_s <= 3 * job.run_s for job in jobs)
    assert max(job.run_s for job in jobs) == 2000


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"arrivals_per_hour": 0}, "arrivals_per_hour is 0"),
        ({"speed": -1}, "speed is -1"),
        ({"size_min": 9}, "sizes go from 9 to 8"),
        ({"estimate_factor_max": 0.5}, "estimate_factor_max is 0.5"),
    ],
)
def test_parameters_that_make_no_sense_are_refused(change: dict[str, float], message: str) -> None:
    with pytest.raises(ConfigError, match=message):
        LoadParameters(**{"arrivals_per_hour": 1, **change})  # type: ignore[arg-type]
