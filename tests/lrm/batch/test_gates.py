"""The manager of batch systems: claims that are gated, and opened again."""

from __future__ import annotations

import asyncio
from dataclasses import replace
from pathlib import Path

import pytest

from koala.errors import LocalManagerError
from koala_agent.conformance.witness import Witness
from koala_agent.lrm.batch.batch_manager import BatchManager
from koala_agent.lrm.batch.batch_settings import BatchSettings
from koala_agent.lrm.batch.gatekeeper import AGAIN_S, GATES_S
from koala_agent.lrm.batch.slurm import Slurm
from koala_agent.lrm.batch.slurm.gates import GATED
from koala_agent.lrm.dialect import Gate, Limits
from koala_agent.lrm.local_manager import Idle, Placeholder, RequestRefusedError
from koala_agent.transport.interface import Answer, Command
from tests.lrm.batch.imitated_slurm import CLAIM, Cluster, Job, Serve
from tests.lrm.harness import serving

BY_AGE = (
    "AccountingStorageType   = accounting_storage/slurmdbd\n"
    "PriorityType            = priority/multifactor\n"
)
SHUT, OPEN = ("StartTime=now+7days", f"Comment={GATED}"), ("StartTime=now", "Comment=")


@pytest.fixture
def gated(placeholder: Placeholder) -> Placeholder:
    return replace(placeholder, is_gated=True)


def other(placeholder: Placeholder, number: int) -> Placeholder:
    return replace(placeholder, claim=f"j{number}/1/0/1")


async def test_a_gated_claim_is_submitted_as_one_and_opened_by_a_single_command(
    serve: Serve, cluster: Cluster, gated: Placeholder
) -> None:
    async with serve() as (manager, _):
        await manager.submit(gated)
        assert manager.gate == "start time"
        (argv,) = [
            said for said in cluster.said if said[0] == "sbatch" and said[-1] != "--test-only"
        ]
        assert argv[-2:] == ("--begin=now+7days", f"--comment={GATED}")
        await cluster.polls()
        assert cluster.changes() == []
        for _ in range(2):
            await manager.set_gate(CLAIM, is_gated=False)
            await cluster.polls()
        assert cluster.changes() == [("JobId=1", *OPEN)]


async def test_priorities_by_age_need_another_gate_once_the_job_is_queued(
    serve: Serve, cluster: Cluster, gated: Placeholder
) -> None:
    cluster.config = BY_AGE
    async with serve() as (manager, _):
        await manager.submit(gated)
        assert manager.gate == "excluded nodes"
        await manager.set_gate(CLAIM, is_gated=False)
        await manager.set_gate(CLAIM, is_gated=True)
        assert cluster.changes() == [
            ("JobId=1", "ExcNodeList=n[1-2]", "StartTime=now"),
            ("JobId=1", "ExcNodeList=", "Comment="),
            ("JobId=1", "ExcNodeList=n[1-2]", f"Comment={GATED}"),
        ]


async def test_claims_that_want_the_same_share_a_command(
    serve: Serve, cluster: Cluster, placeholder: Placeholder
) -> None:
    claims = [other(placeholder, number) for number in range(1, 5)]
    async with serve() as (manager, _):
        for one in claims:
            await manager.submit(one)
        await asyncio.gather(*(manager.set_gate(one.claim, is_gated=True) for one in claims))
        assert len(cluster.changes()) <= 2  # the first may have gone alone
        numbers = [n for jobs, *_ in cluster.changes() for n in jobs[6:].split(",")]
        assert sorted(numbers) == ["1", "2", "3", "4"]


async def test_a_gate_that_is_refused_gives_way_to_the_next_and_the_last_is_told(
    serve: Serve, cluster: Cluster, placeholder: Placeholder
) -> None:
    cluster.refused_change = "StartTime"
    async with serve() as (manager, witness):
        await manager.submit(placeholder)
        await manager.set_gate(CLAIM, is_gated=True)
        assert manager.gate == "nice value"
        assert cluster.changes()[-1] == ("JobId=1", "Nice=1000000000", f"Comment={GATED}-nice")
        cluster.refused_change = "Comment"
        with pytest.raises(RequestRefusedError):
            await manager.set_gate(CLAIM, is_gated=False)
        told = await witness.until(Idle, lambda idle: "cannot be opened" in idle.trouble)
        assert "Access/permission denied" in told.trouble
        cluster.refused_change = ""
        await manager.set_gate(CLAIM, is_gated=False)
        assert cluster.changes()[-1] == ("JobId=1", "Nice=0", "Comment=")
        told = await witness.until(Idle, lambda idle: "opened" not in idle.trouble)
        assert told.trouble.startswith("waiting claims are not gated by start time: scontrol")
        assert told.idle == 12
        cluster.now += GATES_S
        await cluster.polls()
        assert manager.gate == "nice value"
        cluster.config = BY_AGE
        cluster.now += GATES_S
        await cluster.polls()
        assert manager.gate == "excluded nodes"
        await witness.until(Idle, lambda idle: idle.trouble == "")


class Ageing(Slurm):
    """Two jobs of the account gather age."""

    def read_limits(self, answers: tuple[Answer, ...]) -> Limits:
        """See Dialect."""
        return Limits(ageing=2)


async def test_no_further_claim_of_a_component_is_sent_that_would_gather_no_age(
    serve: Serve, cluster: Cluster, gated: Placeholder
) -> None:
    async with serve(Ageing()) as (manager, _):
        await manager.idle()
        await manager.submit(gated)
        second = replace(gated, claim=CLAIM[:-1] + "2")
        await manager.submit(second)
        for _ in range(2):
            with pytest.raises(RequestRefusedError, match="2 jobs of the account gather age"):
                await manager.submit(replace(gated, claim=CLAIM[:-1] + "3"))
        await manager.submit(second)  # again
        await manager.submit(other(gated, 2))  # the first one of its component
        assert len(cluster.jobs) == 3


async def test_a_command_that_was_lost_and_a_change_of_somebody_else_are_repaired(
    serve: Serve, cluster: Cluster, gated: Placeholder
) -> None:
    async with serve() as (manager, witness):
        await manager.submit(gated)
        cluster.is_away = True
        with pytest.raises(LocalManagerError):
            await manager.set_gate(CLAIM, is_gated=False)
        cluster.is_away = False
        cluster.now += AGAIN_S
        await cluster.polls()
        assert cluster.changes()[-1] == ("JobId=1", *OPEN)
        assert cluster.job("1").comment == ""
        await cluster.polls()
        cluster.is_stubborn = True
        cluster.job("1").comment = GATED
        sent = []
        for waited_s in (600.0, 0.0, AGAIN_S, AGAIN_S, AGAIN_S):
            cluster.now += waited_s
            before = len(cluster.changes())
            await cluster.polls()
            sent.append(len(cluster.changes()) - before)
        assert sent == [1, 0, 1, 0, 1]  # ever less often
        await witness.until(Idle, lambda idle: "no effect: jobs 1" in idle.trouble)


async def test_a_gated_submission_without_an_answer_is_settled_when_it_is_found(
    serve: Serve, cluster: Cluster, gated: Placeholder
) -> None:
    cluster.config = BY_AGE
    async with serve() as (manager, _):
        cluster.is_deaf_to_submissions = True
        with pytest.raises(LocalManagerError):
            await manager.submit(gated)
        await cluster.polls()
        assert cluster.changes() == [("JobId=1", "ExcNodeList=n[1-2]", "StartTime=now")]


class WithGates(Slurm):
    """A dialect that has these gates."""

    known: tuple[Gate, ...] = ()

    def read_gates(self, answers: tuple[Answer, ...]) -> tuple[Gate, ...]:
        return self.known


async def test_without_a_gate_no_gated_claim_is_queued(
    cluster: Cluster, tmp_path: Path, gated: Placeholder
) -> None:
    settings = BatchSettings(processors=16, state_directory=tmp_path / "lrm", scope="ab")
    dialect = WithGates()
    manager = BatchManager(settings, dialect, cluster, on_report=Witness(), clock=cluster.clock)
    async with serving(manager):
        with pytest.raises(RequestRefusedError, match="no gate"):
            await manager.submit(gated)
        assert (manager.gate, await manager.listing()) == ("", ())


async def test_a_dialect_that_cannot_submit_a_gated_job_gates_it_at_once(
    cluster: Cluster, tmp_path: Path, gated: Placeholder, monkeypatch: pytest.MonkeyPatch
) -> None:
    def order(word: str) -> Command:
        return Command(argv=("scontrol", "update", "JobId=1", word))

    gate = Gate(
        name="tap", shut=lambda _: order("shut"), open=lambda _: order("open"), read=lambda _: None
    )
    monkeypatch.setattr(WithGates, "known", (gate,))
    settings = BatchSettings(processors=16, state_directory=tmp_path / "lrm", scope="ab")
    dialect = WithGates()
    manager = BatchManager(settings, dialect, cluster, on_report=Witness(), clock=cluster.clock)
    async with serving(manager):
        await manager.submit(gated)
        assert cluster.changes() == [("JobId=1", "shut")]
        await manager.set_gate(CLAIM, is_gated=False)
        assert cluster.changes() == [("JobId=1", "shut"), ("JobId=1", "open")]


async def test_expected_starts_come_from_the_queue_run_forward(
    serve: Serve, cluster: Cluster, gated: Placeholder, placeholder: Placeholder
) -> None:
    """Sixteen processors are idle: the head needs them, and the claims come after it."""
    async with serve() as (manager, witness):
        await manager.submit(gated)
        await manager.submit(replace(other(placeholder, 2), processors=16))
        cluster.jobs |= {
            "1": replace(cluster.jobs["1"], cpus="4", priority=0, reason="BadConstraints"),
            "2": replace(cluster.jobs["2"], cpus="16", priority=5, reason="Priority"),
            "90": Job("o", cpus="16", left="1:00:00", priority=9, reason="Resources"),
            "91": Job("o", cpus="16", left="UNLIMITED", priority=1, reason="Priority"),
        }
        cluster.now += 60
        expected = {CLAIM: 3600.0, "j2/1/0/1": 3600.0}
        await witness.until(
            Idle, lambda idle: {wait.claim: wait.start_in_s for wait in idle.waits} == expected
        )
