"""A what-if replay keeps some of the recorded world and moves the rest along."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from koala.core.invariants import check
from koala.core.model.events import (
    DaemonStarted,
    JobSubmitted,
    ParametersChanged,
    SiteReported,
)
from koala.core.model.job_spec import Deadline
from koala.core.model.parameters import Parameters
from koala.core.model.values import FileName, JobId, SiteName
from koala.lab.sim.journal_replay.whatif import WhatIf, alternatives
from koala.policies import BUILT_IN
from koala.policies.changes import Changes
from tests.harness.builders import HIGH, a_component, a_site, a_spec
from tests.lab.sim.journal_replay.past import Grid, Told, driven, told

FILE_BYTES = 100_000_000
"""A hundred seconds over a link."""


def rows(comparison: WhatIf, job: str) -> dict[str, dict[str, Any]]:
    """A job in the three columns."""
    (row,) = (row for row in comparison.document()["jobs"] if row["job"] == job)
    return {column: row[column] for column in ("recorded", "simulated", "what_if")}


@pytest.fixture
def with_file() -> Told:
    """delft has the file and little room; leiden is empty and a hundred seconds away."""
    grid = Grid(sites={"delft": 4, "leiden": 16}, run_s={"j1": 40.0})
    grid.at(1.0, lambda: grid.world.add_replica(FileName("f"), SiteName("delft"), FILE_BYTES))
    grid.submit("j1", a_spec(2, 2, file="f"), at=10.0)
    return grid.told(2000.0)


def test_another_placement_policy_places_elsewhere_and_the_program_runs_as_long(
    with_file: Told,
) -> None:
    found = rows(with_file.compare(placement="WF"), "j1")
    assert found["recorded"]["sites"] == found["simulated"]["sites"] == ["delft", "delft"]
    assert found["what_if"]["sites"] == ["leiden", "leiden"]
    started_at = found["what_if"]["started_at"]
    assert started_at == pytest.approx(10.0 + 100.0, abs=1.0), "the file had to travel"
    assert found["what_if"]["ended_at"] - started_at == pytest.approx(40.0, abs=0.1)


def test_a_copy_that_is_faster_than_thought_is_so_in_a_what_if() -> None:
    """The paper's rule would have waited for the JST, 100 s after the placement."""
    grid = Grid(sites={"delft": 4, "leiden": 16}, parameters={"start": "early"})
    grid.at(1.0, lambda: grid.world.add_replica(FileName("f"), SiteName("delft"), FILE_BYTES))
    grid.submit("j1", a_spec(a_component(8, "leiden"), file="f"), at=10.0)
    found = rows(grid.told(2000.0).compare(start="jst"), "j1")
    recorded, simulated, paper = (found[name] for name in ("recorded", "simulated", "what_if"))
    assert recorded["started_at"] < 90.0
    assert simulated["started_at"] == pytest.approx(recorded["started_at"], abs=0.5)
    assert simulated["claimed_at"] == pytest.approx(recorded["claimed_at"], abs=10.0)
    assert recorded["claimed_at"] < recorded["started_at"] - 5.0
    assert paper["started_at"] == pytest.approx(110.0, abs=0.2)


@pytest.mark.parametrize("queueing", BUILT_IN["queueing"])
def test_any_discipline_may_have_been_in_force(queueing: str) -> None:
    """A large job before small ones: the global queue of GS keeps its order, koala's scans do
    not (Multiple queues, 2.4)."""
    grid = Grid(sites={"delft": 8, "leiden": 8}, run_s={"j1": 50.0, "j2": 20.0, "j3": 20.0})
    grid.submit("j1", a_spec(4), at=10.0)
    grid.submit("j2", a_spec(8, 8), at=20.0)
    grid.submit("j3", a_spec(4), at=30.0)
    comparison = grid.told(1000.0).compare(queueing=queueing)
    check(comparison.columns["what_if"].scheduler, comparison.columns["what_if"].history.last_at)
    found = rows(comparison, "j3")
    assert found["simulated"]["started_at"] == pytest.approx(30.0, abs=1.0)
    assert found["what_if"]["phase"] == "Finished"
    if queueing == "GS":
        assert found["what_if"]["started_at"] == pytest.approx(10.0 + 50.0 + 20.0, abs=2.0)


@pytest.mark.parametrize(("gate", "holds"), [("place", 1), ("", 2)])
def test_tickets_come_up_when_the_recorded_users_have_gone(gate: str, holds: int) -> None:
    """leiden is free from 200 on, and delft from 800 on. A ticket that comes up at leiden is given
    back after 300 s; the next waits for delft behind its gate, and without one it comes up, too."""
    grid = Grid(sites={"delft": 8, "leiden": 8}, gate=gate)
    grid.local_job("delft", 6, at=5.0, run_s=795.0)
    grid.local_job("leiden", 6, at=5.0, run_s=195.0)
    parts = [a_component(4, site, wall_time_s=1800.0) for site in ("delft", "leiden")]
    grid.submit("j1", a_spec(*parts), at=10.0)
    comparison = grid.told(2000.0).compare(tickets="turns")
    for row in rows(comparison, "j1").values():
        assert row["started_at"] == pytest.approx(800.0, abs=1.5)
    held_s = comparison.document()["figures"]["what_if"]["held_processor_s"]
    assert held_s == pytest.approx(holds * 4 * 300.0, abs=20.0)


def test_what_is_booked_begins_when_it_should_and_others_leave_room() -> None:
    """Both sites are booked from 68 on. Delft is full until 100, so that its booking begins late,
    while the other one holds."""
    grid = Grid(sites={"delft": 8, "leiden": 8}, gate="", books="calendar")
    grid.local_job("delft", 6, at=5.0, run_s=95.0)
    grid.local_job("leiden", 6, at=5.0, run_s=5.0)
    parts = [a_component(4, site, wall_time_s=1800.0) for site in ("delft", "leiden")]
    grid.submit("j1", a_spec(*parts), at=8.0)
    comparison = grid.told(2000.0).compare(tickets="book")
    for row in rows(comparison, "j1").values():
        assert row["started_at"] == pytest.approx(100.0, abs=1.5)
    held_s = comparison.document()["figures"]["what_if"]["held_processor_s"]
    assert held_s == pytest.approx(4 * 32.0, abs=20.0)


def test_ways_to_wait_are_compared_over_one_run() -> None:
    """Each site has room for a while, but both have it only from 1500 on. Where claims wait in
    queues they hold at delft from 100 to 400 or so; idle-only holds nothing."""
    grid = Grid(sites={"delft": 8, "leiden": 8}, gate="place")
    grid.local_job("delft", 6, at=5.0, run_s=95.0)
    grid.local_job("leiden", 6, at=5.0, run_s=1495.0)
    parts = [a_component(4, site, wall_time_s=1800.0) for site in ("delft", "leiden")]
    grid.submit("j1", a_spec(*parts), at=10.0)
    told = grid.told(4000.0)
    ways = {f"tickets={name}": Changes(policies={"tickets": name}) for name in ("none", "turns")}
    found = alternatives(told.history, told.scheduler, ways, lambda _name, _recording: print)
    assert [*found] == ["recorded", "simulated", "tickets=none", "tickets=turns"]
    for figures in found.values():
        assert figures["started"] == 1
        assert figures["wait_s"] == figures["wait_median_s"] == pytest.approx(1490.0, abs=20.0)
    held_s = {name: figures["held_processor_s"] for name, figures in found.items()}
    assert held_s["tickets=none"] == held_s["simulated"] < 4 * 20.0
    assert held_s["tickets=turns"] == pytest.approx(4 * 300.0, rel=0.1)


def test_a_cut_site_comes_back_when_it_did_and_claims_there_live_as_long_as_their_lease() -> None:
    """The hold lease (60 s) ends in the long cut, and the run lease (600 s) does not."""
    grid = Grid(sites={"delft": 8, "leiden": 8}, run_s={"j1": 50.0, "j2": 400.0})
    grid.submit("j2", a_spec(a_component(2, "delft")), at=10.0)
    grid.at(30.0, lambda: grid.world.cut(SiteName("delft"), for_s=100.0))
    grid.submit("j1", a_spec(a_component(4, "delft"), 4), at=40.0)
    comparison = grid.told(3000.0).compare(claim_threshold=1.0)
    for row in rows(comparison, "j1").values():
        assert row["started_at"] == pytest.approx(131.0, abs=4.0)
    for row in rows(comparison, "j2").values():
        assert (row["attempts"], row["phase"]) == (1, "Finished")
        assert row["ended_at"] == pytest.approx(410.0, abs=4.0)


def test_a_daemon_that_was_down_starts_nothing_meanwhile() -> None:
    grid = Grid(sites={"delft": 8}, run_s={"j1": 50.0})
    grid.submit("j1", a_spec(8), at=10.0)
    grid.submit("j2", a_spec(8), at=20.0)
    grid.at(40.0, lambda: grid.world.crash_daemon(for_s=60.0))
    for row in rows(grid.told(3000.0).compare(high_scans_per_low=1), "j2").values():
        assert row["started_at"] == pytest.approx(101.0, abs=3.0)


def test_who_was_preempted_runs_on_where_nobody_may_be() -> None:
    grid = Grid(sites={"delft": 8, "leiden": 8}, run_s={"j1": 500.0}, starts_after_stop=True)
    grid.at(1.0, lambda: grid.world.add_replica(FileName("f"), SiteName("leiden"), FILE_BYTES))
    grid.submit("j2", a_spec(a_component(8, "delft"), file="f", priority=HIGH), at=10.0)
    grid.submit("j1", a_spec(a_component(8, "delft")), at=20.0)
    comparison = grid.told(3000.0).compare(preempt="none")
    low, high = rows(comparison, "j1"), rows(comparison, "j2")
    assert [row["attempts"] for row in low.values()] == [2, 2, 1]
    assert [row["started_at"] for row in high.values()] == [
        pytest.approx(111.0, abs=2.0),
        pytest.approx(111.0, abs=2.0),
        pytest.approx(520.1 + 71.6, abs=2.0),  # the copy takes as long as it did
    ]


def test_run_times_that_the_journal_does_not_know_are_guessed_and_counted() -> None:
    """The journal ends while the jobs run: by the other component, by the wall-time limit."""
    grid = Grid(
        sites={"delft": 8, "leiden": 8}, run_s={"j1": 1e3, "j2": 1e3, "j3": 30.0, "j4": 1.0}
    )
    grid.submit("j1", a_spec(a_component(2, wall_time_s=600.0)), at=10.0)
    grid.submit("j2", a_spec(2), at=10.0)
    grid.submit("j3", a_spec(2), at=10.0)
    grid.submit("j4", a_spec(1), at=195.0)
    document = grid.told(200.0).compare(high_scans_per_low=1).document()
    assert document["guessed"]["simulated"] == {
        "its wall-time limit": 1,
        "the mean run time of all components": 1,
    }
    by_job = {row["job"]: row["simulated"] for row in document["jobs"]}
    ran_s = {job: row["ended_at"] - row["started_at"] for job, row in by_job.items()}
    assert ran_s["j1"] == pytest.approx(600.0, abs=0.5)
    assert ran_s["j2"] == pytest.approx(186.5, abs=2.0), "not less than it was seen to run"
    assert document["figures"]["recorded"]["open"] == 2
    assert document["figures"]["simulated"]["open"] == 0


def test_local_users_lose_their_jobs_where_a_deadline_may_kill_them() -> None:
    """They use the whole site; as it was, the job missed its deadline (Deadlines, 2.3)."""
    spec = a_spec(4, deadline=Deadline(after_s=60.0))
    busy = SiteReported(site=SiteName("delft"), idle=0, through=0, local=8)
    records = driven(
        [
            (0.0, ParametersChanged(parameters=Parameters())),
            (0.0, DaemonStarted(epoch=1)),
            (1.0, a_site("delft", 8, idle=0, may_kill_local=True)),
            (2.0, busy),
            (10.0, JobSubmitted(job=JobId("j1"), spec=spec)),
            (200.0, replace(busy, rtt_s=0.001)),
        ],
        until=300.0,
    )
    found = rows(told(records).compare(at_deadline="kill"), "j1")
    assert [row["phase"] for row in found.values()] == ["Failed", "Failed", "Finished"]
    assert found["what_if"]["started_at"] == pytest.approx(70.0, abs=1.0)


def test_differences_are_between_the_simulations() -> None:
    grid = Grid(sites={"delft": 8, "leiden": 8})
    grid.submit("j1", a_spec(2), at=10.0)
    figures = grid.told(200.0).compare(high_scans_per_low=1).document()["figures"]
    assert figures["difference"]["response_s"] == 0.0
    assert figures["simulated"]["response_s"] == pytest.approx(
        figures["recorded"]["response_s"], abs=0.05
    )
