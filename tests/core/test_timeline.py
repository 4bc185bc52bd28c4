"""The paper's formulas and figure 1, as numbers that a person can check (KOALA 3.2)."""

from __future__ import annotations

import pytest

from koala.core.model.actions import ClaimProcessors
from koala.core.model.timeline import chunk, first_claim_at, lead_s, next_claim_at
from tests.core.conftest import Begin
from tests.harness.builders import a_job, a_site


def test_the_first_claiming_time_is_l_of_the_way_to_the_start() -> None:
    assert first_claim_at(10, 100, fraction=0.75, hold_max_s=900) == 85


def test_the_first_claiming_time_is_no_earlier_than_the_allowed_hold() -> None:
    """A claim costs what its user allowed, however long the transfer is."""
    assert first_claim_at(0, 1000, fraction=0.75, hold_max_s=60) == 940


def test_the_series_of_claiming_times_approaches_the_start_and_lands_on_it() -> None:
    """75, 93.75, 98.44, 99.61 - and a step below a second is the try at the JST."""
    series = [75.0]
    while series[-1] < 100:
        series.append(next_claim_at(series[-1], 100, fraction=0.75, step_min_s=1.0))
    assert series == [75.0, 93.75, 98.4375, 99.609375, 100]


@pytest.mark.parametrize(
    ("rtt_s", "arms", "lead"),
    [(0.0, 0, 0.05), (0.001, 0, 0.05), (0.1, 0, 0.4), (0.1, 1, 0.8), (0.1, 9, 2.0), (9.0, 0, 2.0)],
)
def test_the_lead_is_so_many_round_trips_and_doubles_with_each_arming_that_failed(
    rtt_s: float, arms: int, lead: float
) -> None:
    limits = {"lead_min_s": 0.05, "lead_max_s": 2.0}
    assert lead_s(rtt_s, round_trips=4, arms=arms, **limits) == pytest.approx(lead)
    assert lead_s(4 * rtt_s, round_trips=1, arms=arms, **limits) == pytest.approx(lead)


def test_chunks_are_in_proportion_to_processors_and_cover_the_file() -> None:
    parts = [chunk([3, 1, 2], component, 1001) for component in range(3)]
    assert parts == [(0, 500), (500, 167), (667, 334)]
    assert sum(size for _, size in parts) == 1001


def test_figure_1(begin: Begin) -> None:
    """Submitted (A) at 10, placed (B) at 20, claimed (C) at 95, started (D) at 120, ended (E)."""
    script = begin(start="jst", bandwidth_default_bps=10.0)
    script.tell(a_site("home", 1), a_site("delft", 8)).replica("data", "home", 1000)
    script.report("delft", 0).at(10).tell(a_job("j1", 8, file="data"))
    script.at(20).report("delft", 8)
    assert script.placed_on("j1") == ["delft"]
    script.drop().at(95)
    script.expect(ClaimProcessors, at=95, site="delft")
    script.grant("j1/1/0/1").at(115).fetched("j1/1/t1", took_s=95.0)
    script.at(119.95)
    claims = script.released("j1")
    script.at(120).passed(*claims).at(180)
    script.drop().exits(claims[0]).drop()
    timeline = script.picture("j1")["timeline"]
    assert (timeline["submitted_at"], timeline["placed_at"]) == (10, 20)
    assert (timeline["claimed_at"], timeline["start_at"], timeline["started_at"]) == (95, 120, 120)
    assert timeline["ended_at"] == 180
    assert timeline["total_waiting_s"] == 110
    assert timeline["transfer_estimate_s"] == 100
    assert timeline["processor_gained_s"] == 8 * 75
    assert timeline["processor_wasted_s"] == 8 * 25
    assert timeline["processor_run_s"] == 8 * 60
    assert timeline["extra_claiming_tries"] == 0
    assert timeline["start_delay_s"] == 0
