"""The gate probe: what it makes of a batch system that does not keep a job's place."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from dataclasses import replace
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
from koala_agent.lrm.batch.slurm.gates import GATED, gates_of
from koala_agent.lrm.gate_probe import Trial
from koala_agent.lrm.gate_probe_result import (
    GateTrial,
    describe_trial,
    is_wanted,
    names_of,
    note_begin,
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
    runs(later if gated.comment.startswith(GATED) else gated)


def busy(gated: Job, later: Job) -> None:
    """The queue is served in its order once the gated one is open."""
    if not gated.comment.startswith(GATED):
        runs(gated)


def heedless(gated: Job, later: Job) -> None:
    runs(gated)


def unjust(gated: Job, later: Job) -> None:
    if not gated.comment.startswith(GATED):
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
        if not gated.comment.startswith(GATED):
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
    assert describe_trial(read_trial(tmp_path), GATES).startswith("not probed yet: the agent ")
    said = describe_trial(read_trial(tmp_path), GATES, is_automatic=False)
    assert said == "not probed yet: run koala-agent doctor --probe"
    note_begin(tmp_path)
    assert describe_trial(read_trial(tmp_path), GATES).startswith("probing since ")
    assert not is_wanted(read_trial(tmp_path), GATES)
    GateTrial(begun_at=86_400.0).save(tmp_path)
    said = describe_trial(read_trial(tmp_path), GATES)
    assert "not probed yet: the probe of 1970-01-02 showed nothing" in said
    assert is_wanted(read_trial(tmp_path), GATES)
    GateTrial(gate="start time", gates=names_of(GATES), at=1.0).save(tmp_path / "lrm")
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


def a_manager(
    site: Scheduler, folder: Path, *, is_gate_probed: bool = True, scope: str = "ab"
) -> BatchManager:
    settings = BatchSettings(
        processors=16,
        state_directory=folder,
        scope=scope,
        poll_s=0.01,
        figures_s=0.01,
        is_gate_probed=is_gate_probed,
        probe_after_s=0.0,
    )
    return BatchManager(settings, Slurm(), site, on_report=Witness(), clock=site.clock)


@pytest.mark.parametrize("is_first", [True, False])
async def test_a_new_site_or_configuration_is_probed_by_itself_while_nobody_waits(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, *, is_first: bool
) -> None:
    monkeypatch.setattr(repeated_probe, "POLL_S", 0.01)
    if not is_first:
        GateTrial(gate="start time", gates=names_of(GATES), at=1.0).save(tmp_path)
    site = Scheduler(passing)
    site.config = BY_AGE
    site.queue = queue_row("9", "PENDING", "16", "1:00", "1", "Resources", "")
    manager = a_manager(site, tmp_path)
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


async def test_what_a_killed_agent_left_of_a_probe_is_cancelled_and_not_begun_anew(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Each start has a scope of its own; the first one stays."""
    site = Scheduler(full)
    async with serving(a_manager(site, tmp_path, is_gate_probed=False)):
        await site.polls(1)
    monkeypatch.setattr(gate_probe, "SHUT_S", 60.0)
    killed = a_manager(site, tmp_path, scope="cd")
    async with serving(killed):
        while len(site.jobs) < 2:
            await site.polls(1)
    for job in site.jobs.values():
        job.state = "PENDING"  # as if it had not cancelled them at its end
    async with serving(a_manager(site, tmp_path, scope="ef")):
        await site.polls(5)
    assert [job.state for job in site.jobs.values()] == ["CANCELLED"] * 2


async def test_an_administrator_turns_the_probe_off(tmp_path: Path) -> None:
    site = Scheduler(passing)
    manager = a_manager(site, tmp_path, is_gate_probed=False)
    async with serving(manager):
        await site.polls(5)
        assert (await manager.idle()).gate_tried.endswith("run koala-agent doctor --probe")
    assert not site.jobs


async def test_the_processors_of_a_probe_are_idle_for_claims_and_it_ends_for_one(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(repeated_probe, "POLL_S", 0.01)
    monkeypatch.setattr(gate_probe, "SHUT_S", 60.0)

    def held(gated: Job, later: Job) -> None:
        """The later one has a processor."""
        runs(later)
        site.cpus = "1/15/0/16"

    site = Scheduler(held)
    site.places["1"] = "(null)"  # the probe waits for it
    monkeypatch.setattr(gate_probe, "PLACE_S", 60.0)
    manager = a_manager(site, tmp_path)
    async with serving(manager):
        async with asyncio.timeout(30):
            while (await manager.idle()).local_processors or site.cpus != "1/15/0/16":
                await site.polls(1)
        assert (await manager.idle()).startable == 16
        await manager.submit(replace(JOB, claim="j1/1/0/1", processors=16))
        await site.polls(5)
        assert site.jobs["1"].state == site.jobs["2"].state == "CANCELLED"
        assert site.jobs["3"].state != "CANCELLED"
