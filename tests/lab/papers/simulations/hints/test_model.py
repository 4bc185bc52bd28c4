"""The model of the hints paper by itself: blocks, sharing, rounds, storage, and what is counted."""

from __future__ import annotations

from dataclasses import replace
from math import isnan

import pytest
from hypothesis import given
from hypothesis import strategies as st

from koala.errors import ConfigError
from koala.lab.papers.hints.simulation.arrivals import Arrival
from koala.lab.papers.hints.simulation.counting import metrics, summarize
from koala.lab.papers.hints.simulation.progress import max_min_fair
from koala.lab.papers.hints.simulation.run import simulate_jobs
from koala.lab.papers.hints.simulation.setting import JobClass, Setting, SiteSetting

ONE = Setting(
    policy="PreferLocal",
    sites=(SiteSetting(name="a", mips=2000, slice_mips=1000, slots=4, link_mbps=8),),
    io=JobClass(data_mb=1000, length_mi=1e6),
    io_fraction=1.0,
)
"""A job alone computes for 1000 s and reads at 8 Mb/s meanwhile: both limits are met exactly."""
READER = Arrival(at=0.0, home=0, is_io=True)


def response_s(setting: Setting, *jobs: Arrival) -> list[float]:
    return [job.response_s for job in simulate_jobs(setting, jobs or (READER,)).jobs]


# --- blocks (Hints 3.3, figure 1) ---


@pytest.mark.parametrize(("blocks", "factor"), [(1, 2.0), (4, 1.25), (100, 1.01)])
def test_the_first_block_of_data_comes_before_the_first_block_of_instructions(
    blocks: int, factor: float
) -> None:
    """Staging is one block: nothing overlaps (Hints 3.3)."""
    assert response_s(replace(ONE, blocks=blocks)) == [pytest.approx(1000.0 * factor)]


def test_a_job_is_suspended_until_its_next_block_is_there() -> None:
    """Without booking a link of half the width doubles the time of each block."""
    setting = replace(
        ONE, policy="NoNetwork", blocks=4, sites=(replace(ONE.sites[0], link_mbps=4),)
    )
    assert response_s(setting) == [pytest.approx(500 + 3 * 500 + 250)]


# --- sharing ---


@given(st.lists(st.floats(0, 1e6)), st.floats(0, 1e6))
def test_max_min_fair_shares(wanted: list[float], capacity: float) -> None:
    """Nobody gets more than it wants, nothing is left while somebody wants more, and nobody has
    more than one who wants more."""
    parts = max_min_fair(wanted, capacity)
    assert all(part <= want for part, want in zip(parts, wanted, strict=True))
    assert sum(parts) == pytest.approx(min(capacity, sum(wanted)), rel=1e-9, abs=1e-6)
    hungry = [p for p, want in zip(parts, wanted, strict=True) if p < want * (1 - 1e-9) - 1e-9]
    if hungry:
        assert max(parts) <= min(hungry) * (1 + 1e-9) + 1e-6


# --- rounds, storage ---


def test_rounds_may_come_at_fixed_intervals() -> None:
    jobs = [Arrival(at=at, home=0, is_io=True) for at in (30.0, 250.0)]
    run = simulate_jobs(replace(ONE, round_s=100.0), jobs)
    assert [job.placed_at for job in run.jobs] == [100.0, 1100.0]  # the first ends at 1100


def test_what_is_late_by_more_than_rounding_waits_for_the_next_round() -> None:
    (job,) = simulate_jobs(
        replace(ONE, round_s=100.0), [Arrival(at=200.001, home=0, is_io=True)]
    ).jobs
    assert job.placed_at == 300.0


def test_a_job_waits_for_room_for_its_data() -> None:
    site = replace(ONE.sites[0], link_mbps=80, storage_mb=1500)
    assert response_s(replace(ONE, sites=(site,)), READER, READER) == [1000.0, 2000.0]
    roomy = replace(site, storage_mb=2000)
    assert response_s(replace(ONE, sites=(roomy,)), READER, READER) == [1000.0, 1000.0]


def test_what_no_site_can_take_is_counted_and_does_not_hold_up_others() -> None:
    setting = replace(ONE, preferred_mips=1001.0)
    run = simulate_jobs(setting, (READER, READER))
    assert metrics(setting, run)["unplaced"] == 2
    assert isnan(metrics(setting, run)["response.all"])
    assert summarize(setting, (run, run)).document()["unplaced"] == 2


# --- what is counted ---


@pytest.mark.parametrize(
    ("changes", "text"),
    [
        ({"io_fraction": 1.1}, r"io-fraction = 1.1 \(expected 0 to 1"),
        ({"rate": 0.0}, "rate = 0"),
        ({"accept": -0.1}, "accept = -0.1"),
        ({"vpn_mbps": 0.0}, "vpn_mbps = 0"),
        ({"vpns": (("site1", "nowhere", 3.0),)}, "site1-nowhere"),
        ({"blocks": -1}, "blocks = -1"),
        ({"io": JobClass(data_mb=1.0, length_mi=0.0)}, "io-job = 1:0"),
    ],
)
def test_settings_out_of_bounds_are_named(changes: dict[str, object], text: str) -> None:
    with pytest.raises(ConfigError, match=text):
        replace(Setting(), **changes)  # type: ignore[arg-type]
