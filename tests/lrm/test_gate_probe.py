"""The gate probe: what it makes of a batch system that does not keep a job's place."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path

import pytest

from koala.common.runtime.checkup import NotableError
from koala.errors import LocalManagerError
from koala_agent.conformance.witness import Witness
from koala_agent.lrm import gate_probe
from koala_agent.lrm.batch import repeated_probe
from koala_agent.lrm.batch.batch_manager import BatchManager
from koala_agent.lrm.batch.batch_settings import BatchSettings
from koala_agent.lrm.batch.slurm import Slurm
from koala_agent.lrm.batch.slurm_gates import GATED, gates_of
from koala_agent.lrm.gate_probe import Trial
from koala_agent.lrm.gate_trials import (
    GateTrial,
    describe_trial,
    names_of,
    read_trial,
    usable_gates,
)
from koala_agent.lrm.local_manager import Placeholder, RequestRefusedError
from koala_agent.transport.interface import Answer
from tests.lrm.batch.imitated_slurm import Cluster, Job, queue_row
from tests.lrm.harness import serving

BY_AGE = "PriorityType = priority/multifactor"
WITH_DATABASE = f"{BY_AGE}\nAccountingStorageType = x/slurmdbd"
GATES = BY_TIME, BY_NICE, _ = gates_of("", "n1")
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
    """A cluster whose newest two jobs go on by a rule, each time when they are listed."""

    def __init__(self, rule: Rule) -> None:
        super().__init__()
        self._rule = rule
        self.places: dict[str, str] = {}

    def _list(self) -> Answer:
        if self.jobs and len(self.jobs) % 2 == 0:
            self._rule(*[*self.jobs.values()][-2:])
        return super()._list()

    def _show(self, number: str) -> Answer:
        return Answer(
            status=0, out=f"JobId={number} Priority={self.places.get(number, number)}", err=""
        )


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


def a_trial(site: Scheduler) -> Trial:
    return Trial(Slurm(), ask=site.run, act=site.run, poll_s=0.01, scope="ab")


async def tried(site: Scheduler) -> str:
    try:
        return await a_trial(site).run(BY_TIME, JOB)
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


async def test_a_place_that_changes_or_never_comes_is_lost() -> None:
    site = Scheduler(passing)
    site.places["1"] = "(null)"
    with pytest.raises(LocalManagerError, match="job 1, which was gated, got none before it"):
        await tried(site)

    def losing(gated: Job, later: Job) -> None:
        passing(gated, later)
        if gated.comment != GATED:
            site.places["1"] = "9"

    site = Scheduler(losing)
    with pytest.raises(LocalManagerError, match="lost: Priority=1, then Priority=9"):
        await tried(site)


async def test_a_full_queue_shows_too_little() -> None:
    with pytest.raises(
        NotableError, match=r"Priority=1 stayed: try again when processors are idle"
    ):
        await tried(Scheduler(full))


async def test_a_gate_that_is_refused_is_no_verdict_and_leaves_no_job() -> None:
    site = Scheduler(passing)
    site.refused_change = "Nice"
    with pytest.raises(RequestRefusedError):
        await a_trial(site).run(BY_NICE, JOB)
    assert [job.state for job in site.jobs.values()] == ["CANCELLED"]


KEPT = f"keeps the place: tried {datetime.now(UTC):%Y-%m-%d}"


def test_the_last_result_is_kept_and_holds_for_the_configuration_of_its_time(
    tmp_path: Path,
) -> None:
    assert describe_trial(read_trial(tmp_path), GATES).startswith("never tried: ")
    GateTrial(gate="start time", gates=names_of(GATES), at=0.0).save(tmp_path / "lrm")
    found = read_trial(tmp_path / "lrm")
    assert describe_trial(found, GATES) == "keeps the place: tried 1970-01-01"
    for config in (BY_AGE, WITH_DATABASE):
        others = gates_of(config, "n1")
        assert "before the configuration changed" in describe_trial(found, others)


async def test_a_gate_that_loses_the_place_gives_way_to_the_next(tmp_path: Path) -> None:
    site = Scheduler(passing)
    site.places["1"] = "(null)"
    said = await a_trial(site).try_all(GATES, GATES[:2], JOB, tmp_path)
    assert "which was gated, got none before it" in said
    assert "nice value: job 3 did not start" in said
    trial = read_trial(tmp_path)
    assert trial is not None
    assert (trial.gate, trial.lost) == ("nice value", ("start time",))
    assert usable_gates(trial, GATES) == [BY_NICE]
    assert len(usable_gates(trial, gates_of(BY_AGE, "n1"))) == 2


async def test_a_changed_configuration_is_probed_by_itself_while_nobody_waits(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(repeated_probe, "POLL_S", 0.01)
    GateTrial(gate="start time", gates=names_of(GATES), at=0.0).save(tmp_path)
    site = Scheduler(passing)
    site.config = BY_AGE
    site.queue = queue_row("9", "PENDING", "16", "1:00", "1", "Resources", "")
    settings = BatchSettings(
        processors=16, state_directory=tmp_path, scope="ab", poll_s=0.01, figures_s=0.01
    )
    manager = BatchManager(settings, Slurm(), site, on_report=Witness(), clock=site.clock)
    async with serving(manager):
        await manager.idle()
        await site.polls()
        assert not site.jobs
        site.queue = ""
        async with asyncio.timeout(30):
            while (await manager.idle()).gate_tried != KEPT:
                await site.polls(1)
        assert {job.state for job in site.jobs.values()} == {"CANCELLED"}
        assert all(job.name.startswith("koala-ab-j0.1.0.") for job in site.jobs.values())
        assert len(site.jobs) == 2
