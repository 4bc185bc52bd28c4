"""A simulated run whose jobs will never start is stopped, and says so; others come to their end."""

from __future__ import annotations

from dataclasses import replace
from math import inf

import pytest

from koala import lab
from koala.core.model.grid import GridView, Placement, PlacementRequest, SiteFacts, Unplaceable
from koala.core.model.parameters import Parameters
from koala.core.model.values import SiteName
from koala.lab.sim.experiment import standstill
from koala.lab.sim.experiment.setting import LocalJob, SiteSetting
from koala.lab.sim.experiment.standstill import DAY_S, Patience
from koala.lab.sim.log_replay.multicluster import GridJob, GridReplay, Multicluster, rule
from koala.policies import chosen

BUSY = lab.grid({"a": 16, "b": 16, "c": 32}, local_load=0.8)
AT_S = 6 * 3600.0
"""When local users are there in their usual number."""
WHOLE = lab.Job(at=AT_S, processors=64, run_s=60, name="whole")
SMALL = lab.Job(at=AT_S, processors=1, run_s=60, name="small")
HASTY = Patience(idle_s=DAY_S / 2, steps=100)


@pytest.fixture
def hasty(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let a run be stopped soon: the real patience takes ten seconds."""
    monkeypatch.setattr(standstill, "STOPPED", HASTY)
    monkeypatch.setattr(standstill, "SAID", Patience(idle_s=DAY_S / 4, steps=50))


@pytest.mark.usefixtures("hasty")
def test_a_job_that_local_users_never_leave_room_for_ends_the_run_with_a_note(
    capfd: pytest.CaptureFixture[str],
) -> None:
    found = lab.Experiment(grid=BUSY, workload=lab.Jobs([SMALL, WHOLE])).run()
    assert found.is_stopped
    assert (found["finished"], found["unfinished"]) == (1, 1)
    assert "seed 1, stopped" in repr(found)
    stopped, waits = found.notes
    assert stopped.startswith("stopped at a standstill: no job started or ended for ")
    assert "1 job waits: whole needs 16 + 16 + 16 + 16 processors at once" in stopped
    assert stopped.endswith("; sites have a 16, b 16, c 32")
    assert "whole is Placing: " in waits
    assert "largest idle site is " in waits
    assert "placement tries" in waits
    (warned,) = capfd.readouterr().err.splitlines()
    assert "whole needs 16 + 16 + 16 + 16 processors at once" in warned
    assert warned.endswith("the run is stopped after 0.5 simulated days and 100 steps without one")


@pytest.mark.usefixtures("hasty")
def test_a_run_with_an_end_of_its_own_comes_to_it() -> None:
    found = lab.Experiment(grid=BUSY, workload=lab.Jobs([WHOLE]), until_s=2 * DAY_S).run()
    assert not found.is_stopped
    assert found["makespan"] > 1.5 * DAY_S
    assert not any("standstill" in note for note in found.notes)


STEADY = [LocalJob(1800.0 * number, 1, 900.0, 900.0) for number in range(5_000)]


def refusing(request: PlacementRequest, _view: GridView) -> Placement | Unplaceable:
    return Unplaceable(component=request.parts[0].component, reason="never")


def a_replay(jobs: list[GridJob], *, large: list[LocalJob], small: list[LocalJob]) -> GridReplay:
    """A site of 8 processors with a log of local jobs, and one of 4 whose users are steady."""
    sites = tuple(
        SiteSetting(
            name=SiteName(name),
            facts=SiteFacts(processors=processors, grace_s=1.0),
            local_jobs=local_jobs,
            is_steady=is_steady,
        )
        for name, processors, local_jobs, is_steady in (
            ("large", 8, large, False),
            ("small", 4, small, bool(small)),
        )
    )
    setting = Multicluster(
        sites=sites,
        parameters=Parameters(),
        policies=chosen(),
        split=rule("equal"),
    )
    return GridReplay(setting, iter(jobs))


@pytest.mark.usefixtures("hasty")
@pytest.mark.parametrize("days", [3, 12])
def test_a_job_that_waits_for_the_end_of_a_log_is_served(days: int) -> None:
    replay = a_replay(
        [GridJob(0.0, 1, 8, 60.0, 60.0)],
        large=[LocalJob(0.0, 8, days * DAY_S, days * DAY_S)],
        small=STEADY,
    )
    (job,) = replay.run().jobs
    assert job.started_at == pytest.approx(days * DAY_S, abs=1)
    assert not replay.is_stopped


@pytest.mark.usefixtures("hasty")
@pytest.mark.parametrize("load", [0.0, 0.5])
def test_an_outage_without_an_end_is_not_waited_for(load: float) -> None:
    grid = lab.grid({"a": 8, "b": 8}, local_load=load)
    experiment = lab.Experiment(
        grid=grid,
        workload=lab.Jobs([SMALL]),
        placement=refusing,
        faults=lab.Faults(outages=(("a", 60.0, inf),)),
    )
    assert experiment.run().is_stopped


def test_what_no_grid_could_hold_is_named() -> None:
    jobs = [replace(WHOLE, processors=size) for size in (65, (40, 24), 1)]
    found = lab.Experiment(grid=BUSY, workload=lab.Jobs(jobs)).run()
    assert found.notes == (
        "2 jobs left out: whole needs 65 processors; sites have a 16, b 16, c 32",
    )
