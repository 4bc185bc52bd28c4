"""The model of the hints paper by itself: blocks, sharing, rounds, storage, and what is counted."""

from __future__ import annotations

from dataclasses import replace
from math import isnan

import pytest
from hypothesis import given
from hypothesis import strategies as st

from koala.errors import ConfigError
from koala.lab.papers.hints.simulation.counting import metrics, summarize
from koala.lab.papers.hints.simulation.jobs import Arrival
from koala.lab.papers.hints.simulation.progress import Step, max_min_fair, steps_of
from koala.lab.papers.hints.simulation.run import RunRecord, simulate, simulate_jobs
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


def test_what_a_block_wrote_is_sent_while_the_next_is_executed() -> None:
    """Four blocks, half of the data written: read 1; run 1, read 2; run 2, read 3, write 1; ..."""
    setting = replace(ONE, blocks=4, written=0.5)
    kind = setting.io
    assert [(step.mi, step.mb) for step in steps_of(setting, kind)] == [
        (0.0, 125.0),
        (250_000.0, 125.0),
        (250_000.0, 250.0),
        (250_000.0, 250.0),
        (250_000.0, 125.0),
        (0.0, 125.0),
    ]
    assert response_s(setting) == [pytest.approx(125 + 4 * 250 + 125)]


def test_a_job_is_suspended_until_its_next_block_is_there() -> None:
    """Without booking a link of half the width doubles the time of each block."""
    setting = replace(
        ONE, policy="NoNetwork", blocks=4, sites=(replace(ONE.sites[0], link_mbps=4),)
    )
    assert response_s(setting) == [pytest.approx(500 + 3 * 500 + 250)]


def test_a_block_takes_what_nobody_booked_beside_what_its_job_did() -> None:
    """8 Mb/s are booked of 80: the first block is there in a tenth of the time. Two share the rest,
    and each keeps what it booked."""
    wide = replace(ONE, blocks=4, sites=(replace(ONE.sites[0], mips=2000, link_mbps=80),))
    assert response_s(wide) == [pytest.approx(25 + 1000)]
    assert response_s(wide, READER, READER) == [pytest.approx(50 + 1000)] * 2


def test_many_blocks_are_a_stream() -> None:
    for policy in ("NoNetwork", "PreferLocal", "Service"):
        setting = Setting(policy=policy, io_fraction=0.4, rate=0.0002, jobs=20)
        streams = simulate(setting, 3).jobs
        blocks = simulate(replace(setting, blocks=400), 3).jobs
        for one, other in zip(streams, blocks, strict=True):
            assert other.response_s == pytest.approx(one.response_s, rel=0.02), policy


def test_blocks_that_share_a_link_without_booking_against_small_steps_of_time() -> None:
    """Four readers that come one after the other over one link, in steps of 0.05 s."""
    setting = replace(
        ONE,
        policy="NoNetwork",
        blocks=5,
        sites=(replace(ONE.sites[0], mips=4000, link_mbps=10),),
        io=JobClass(data_mb=60, length_mi=50_000),
    )
    jobs = [Arrival(at=at, home=0, is_io=True) for at in (0.0, 7.0, 11.0, 60.0)]
    ours = response_s(setting, *jobs)
    for found, plain in zip(ours, _in_small_steps(setting, jobs), strict=True):
        assert found == pytest.approx(plain, abs=0.6)


def _in_small_steps(setting: Setting, jobs: list[Arrival], dt: float = 0.05) -> list[float]:
    left = [[Step(mi=s.mi, mb=s.mb) for s in steps_of(setting, setting.io)] for _ in jobs]
    ends = [0.0] * len(jobs)
    now = 0.0
    while not all(ends):
        active = [i for i, job in enumerate(jobs) if job.at <= now and left[i]]
        moving = [i for i in active if left[i][0].mb > 0]
        for i in active:
            step = left[i][0]
            step.mi -= setting.sites[0].slice_mips * dt
            if i in moving:
                step.mb -= setting.sites[0].link_mbps / 8 / len(moving) * dt
            if step.mi <= 0 and step.mb <= 0:
                left[i].pop(0)
                if not left[i]:
                    ends[i] = now + dt - jobs[i].at
        now += dt
    return ends


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


@pytest.mark.parametrize("round_s", [0.1, 0.3, 7.7, 100.0, 1000.1])
@pytest.mark.parametrize("blocks", [0, 7])
def test_what_ends_on_a_round_is_served_by_that_round(round_s: float, blocks: int) -> None:
    """A job takes a whole number of rounds and the next one waits for it: the end is the sum of
    many steps, of which rounding makes some a little late."""
    site = replace(ONE.sites[0], slice_mips=1.0, mips=1.0, slots=1)
    each = 3 * (blocks or 1)
    setting = replace(
        ONE,
        sites=(site,),
        policy="NoNetwork",
        io=JobClass(data_mb=0.0 if blocks == 0 else 1e-9, length_mi=each * round_s),
        blocks=blocks,
        round_s=round_s,
        preferred_mips=1.0,
    )
    run = simulate_jobs(setting, [READER] * 40)
    served = [job.placed_at / round_s for job in run.jobs]
    assert served == pytest.approx([number * each for number in range(40)], abs=1e-4)


@pytest.mark.parametrize("late_s", [-1e-9, 0.0, 1e-9])
def test_an_instant_within_rounding_of_a_round_is_that_round(late_s: float) -> None:
    """Also where the clock's own step is coarser than a microsecond."""
    setting = replace(ONE, round_s=0.1)
    for at in (0.3, 7e5, 3e10 + 0.3):
        (job,) = simulate_jobs(setting, [Arrival(at=at + late_s, home=0, is_io=True)]).jobs
        assert job.placed_at == pytest.approx(at, abs=max(1e-8, 1e-11 * at) / 5, rel=0)


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


def test_links_carry_the_data_of_all_jobs() -> None:
    for policy in ("NoNetwork", "PreferLocal", "Service"):
        for blocks in (0, 3):
            setting = Setting(policy=policy, io_fraction=0.5, jobs=60, blocks=blocks)
            run = simulate(setting, 1)
            data_mb = sum(setting.kind(is_io=job.is_io).data_mb for job in run.jobs)
            assert sum(run.moved_mb.values()) == pytest.approx(data_mb, rel=1e-9)


def test_one_replication_has_batch_means() -> None:
    found = summarize(Setting(), (simulate(Setting(), 1),)).document()
    assert 0 < found["response"]["all"]["ci95"] < found["response"]["all"]["mean"]
    assert found["replications"] == 1


def test_an_empty_run_is_a_result() -> None:
    found = summarize(ONE, (RunRecord(jobs=(), moved_mb={(0, 0): 0.0}, ended_at=0.0),)).document()
    assert found["response"]["all"] == {"mean": None, "ci95": None}


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
