"""The gate probe: what it makes of a batch system that does not keep a job's place."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest
from msgspec.structs import replace

from koala.errors import LocalManagerError
from koala_agent.lrm.batch.slurm import Slurm
from koala_agent.lrm.batch.slurm_gates import GATED, gates_of
from koala_agent.lrm.gate_trials import GateTrial, describe_trial, names_of, read_trial
from koala_agent.lrm.local_manager import Placeholder, RequestRefusedError
from koala_agent.probes import gate_probe
from koala_agent.probes.gate_probe import Trial
from koala_agent.transport.interface import Answer
from tests.lrm.batch.imitated_slurm import Cluster, Job

BY_TIME, BY_NICE, _ = gates_of("", "n1")
JOB = Placeholder(
    claim="j0/1/0/5",
    processors=1,
    time_limit_s=60.0,
    argv=("sh",),
    directory=Path("/"),
    body="true",
)
Rule = Callable[[Job, Job], None]


class Scheduler(Cluster):
    """A cluster whose two jobs go on by a rule, each time when they are listed."""

    def __init__(self, rule: Rule) -> None:
        super().__init__()
        self._rule = rule
        self.places = {"1": "1", "2": "2"}

    def _list(self) -> Answer:
        if len(self.jobs) == 2:
            self._rule(self.jobs["1"], self.jobs["2"])
        return super()._list()

    def _show(self, number: str) -> Answer:
        return Answer(status=0, out=f"JobId={number} Priority={self.places[number]}", err="")


def runs(job: Job) -> None:
    if job.state == "PENDING":
        job.state = "RUNNING"


def passing(gated: Job, later: Job) -> None:
    """The later one starts, and the gated one when it is opened."""
    runs(later if gated.comment == GATED else gated)


def busy(gated: Job, later: Job) -> None:
    """The queue is served in its order once the gated one is open."""
    if gated.comment != GATED:
        runs(gated)


def heedless(gated: Job, later: Job) -> None:
    runs(gated)


def unjust(gated: Job, later: Job) -> None:
    if gated.comment != GATED:
        runs(later)


def full(gated: Job, later: Job) -> None:
    """Nothing starts."""


@pytest.fixture(autouse=True)
def limits(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("SHUT_S", "OPEN_S", "PLACE_S"):
        monkeypatch.setattr(gate_probe, name, 0.1)


async def tried(site: Scheduler) -> str:
    try:
        return await Trial(Slurm(), site, poll_s=0.01).run(BY_TIME, JOB)
    finally:
        assert {job.state for job in site.jobs.values()} <= {"CANCELLED"}


async def test_a_gate_that_keeps_the_place_is_told_with_what_was_seen() -> None:
    seen = await tried(Scheduler(passing))
    assert "while job 2 passed it; it started 0 s after it was opened; Priority=1 stayed" in seen
    seen = await tried(Scheduler(busy))
    assert "; job 2 waits behind; it started 0 s after it was opened" in seen


@pytest.mark.parametrize(
    ("rule", "words"),
    [
        (heedless, "job 1 started while it was gated"),
        (unjust, "job 2, which came later, started before job 1"),
    ],
)
async def test_a_gate_that_does_not_hold_or_loses_the_place_fails(rule: Rule, words: str) -> None:
    with pytest.raises(LocalManagerError, match=words):
        await tried(Scheduler(rule))


async def test_a_gate_that_is_refused_is_no_verdict_and_leaves_no_job() -> None:
    site = Scheduler(passing)
    site.refused_change = "Nice"
    with pytest.raises(RequestRefusedError):
        await Trial(Slurm(), site, poll_s=0.01).run(BY_NICE, JOB)
    assert [job.state for job in site.jobs.values()] == ["CANCELLED"]


def test_the_last_result_is_kept_and_holds_for_the_gates_of_its_time(tmp_path: Path) -> None:
    gates, others = gates_of("", "n1"), gates_of("PriorityType = priority/multifactor", "n1")
    assert describe_trial(read_trial(tmp_path), names_of(gates)).startswith("never tried: ")
    kept = GateTrial(gate="start time", gates=names_of(gates), at=0.0, is_kept=True)
    kept.save(tmp_path / "lrm")
    found = read_trial(tmp_path / "lrm")
    assert describe_trial(found, names_of(gates)) == "keeps the place: tried 1970-01-01"
    with_database = gates_of(
        "PriorityType = priority/multifactor\nAccountingStorageType = x/slurmdbd", "n1"
    )
    assert "before the configuration changed" in describe_trial(found, names_of(with_database))
    assert names_of(others) == names_of(gates)
    replace(kept, is_kept=False).save(tmp_path / "lrm")
    lost = describe_trial(read_trial(tmp_path / "lrm"), names_of(gates))
    assert lost == "LOSES the place: tried 1970-01-01"
