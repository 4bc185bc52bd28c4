"""The manager of batch systems: submissions, doubles, and jobs that never start or start again."""

from __future__ import annotations

import asyncio
import threading
from dataclasses import replace
from pathlib import Path

import pytest

from koala.common.protocol.messages import Resources
from koala.errors import LocalManagerError
from koala_agent.conformance.witness import Witness
from koala_agent.lrm.batch.batch_manager import BatchManager
from koala_agent.lrm.batch.batch_settings import BatchSettings
from koala_agent.lrm.batch.limits.submission_pauses import FIRST_S
from koala_agent.lrm.batch.slurm import Slurm
from koala_agent.lrm.dialect import BatchJob, Question
from koala_agent.lrm.local_manager import (
    EndCause,
    Idle,
    PausedError,
    Placeholder,
    Queued,
    RequestRefusedError,
)
from koala_agent.transport.interface import Answer, Command
from tests.lrm.batch.imitated_slurm import CLAIM, Cluster, Serve, listed
from tests.lrm.harness import serving


async def submit_unheard(manager: BatchManager, cluster: Cluster, placeholder: Placeholder) -> None:
    """It arrives, and the answer does not."""
    cluster.is_deaf_to_submissions = True
    with pytest.raises(LocalManagerError) as caught:
        await manager.submit(placeholder)
    assert caught.value.transient
    cluster.is_deaf_to_submissions = False
    cluster.now += FIRST_S


async def test_a_listing_that_began_before_a_submission_says_nothing_against_it(
    cluster: Cluster, tmp_path: Path, placeholder: Placeholder, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Though its answer comes after the submission's has failed to come."""
    old, go = threading.Event(), threading.Event()
    read = Slurm.read_jobs

    def read_late(dialect: Slurm, answer: Answer) -> list[BatchJob]:
        jobs = read(dialect, answer)
        old.set()
        go.wait()
        return jobs

    settings = BatchSettings(processors=16, state_directory=tmp_path / "lrm", scope="ab")
    manager = BatchManager(settings, Slurm(), cluster, on_report=Witness(), clock=cluster.clock)
    async with serving(manager):
        await manager.listing()
        monkeypatch.setattr(Slurm, "read_jobs", read_late)
        async with asyncio.TaskGroup() as group:
            try:
                looking = group.create_task(manager.listing())
                await asyncio.to_thread(old.wait)
                await submit_unheard(manager, cluster, placeholder)
            finally:
                go.set()
            assert await looking == (Queued(claim=CLAIM),)
        await manager.submit(placeholder)
        assert list(cluster.jobs) == ["1"]


async def test_a_submission_that_never_arrived_was_none(
    serve: Serve, cluster: Cluster, placeholder: Placeholder
) -> None:
    """The agent was killed after it had written the claim down, before the batch system heard."""
    async with serve() as (manager, _):
        await submit_unheard(manager, cluster, placeholder)
        cluster.jobs.clear()  # before any look has seen it
    async with serve() as (manager, witness):
        assert await manager.listing() == ()
        await manager.submit(placeholder)
        cluster.job("1").state = "RUNNING"
        await witness.running(CLAIM)


async def test_a_request_that_is_refused_when_asked_is_never_queued(
    serve: Serve, cluster: Cluster, placeholder: Placeholder
) -> None:
    """Slurm would have kept it for ever."""
    async with serve() as (manager, _):
        cluster.refusal = "Requested node configuration is not available"
        with pytest.raises(RequestRefusedError, match="not available"):
            await manager.submit(placeholder)
        assert cluster.jobs == {}
        assert all("--test-only" in argv for argv in cluster.said if argv[0] == "sbatch")
        assert await manager.listing() == ()
        cluster.refusal = ""
        with pytest.raises(RequestRefusedError, match="not asked again for 1 s"):
            await manager.submit(placeholder)
        cluster.now += FIRST_S
        await manager.submit(placeholder)
        assert await manager.listing() == (Queued(claim=CLAIM),)


async def test_a_controller_that_came_back_a_moment_ago_refuses_nothing_for_good(
    serve: Serve, cluster: Cluster, placeholder: Placeholder
) -> None:
    """Until its machines have registered, Slurm says that there are none."""
    async with serve() as (manager, witness):
        cluster.is_away = True
        await witness.until(Idle, lambda idle: bool(idle.trouble))
        cluster.is_away = False
        await witness.until(Idle, lambda idle: not idle.trouble)
        cluster.refusal = "Requested node configuration is not available"
        with pytest.raises(PausedError, match="configuration is not available"):
            await manager.submit(placeholder)
        cluster.refusal = ""
        await manager.submit(placeholder)
        assert await manager.listing() == (Queued(claim=CLAIM),)


async def test_a_limit_of_one_project_closes_the_site_to_no_other(
    serve: Serve, cluster: Cluster, placeholder: Placeholder
) -> None:
    async with serve() as (manager, witness):
        await manager.submit(replace(placeholder, resources=Resources(project="chem")))
        cluster.job("1").reason = "AssocGrpCPUMinutesLimit"
        told = await witness.until(Idle, lambda idle: "limit" in idle.why)
        assert told.why == (
            "the account of Koala with chem has reached a limit (AssocGrpCPUMinutesLimit)"
        )
        assert told.startable == 16


async def test_a_claim_in_a_partition_of_which_the_figures_do_not_tell_has_no_stated_start(
    serve: Serve, cluster: Cluster, placeholder: Placeholder
) -> None:
    cluster.partitions = "PartitionName=batch Default=YES\nPartitionName=full Default=NO\n"
    cluster.cpus = "16/0/0/16"
    cluster.queue = listed("90", "RUNNING", "x", processors="16", left="10:00", nodes="n1")
    async with serve() as (manager, witness):
        for claim, queue in ((CLAIM, "full"), ("j2/1/0/1", "batch"), ("j3/1/0/1", None)):
            asked = Resources(queue=queue)
            await manager.submit(replace(placeholder, claim=claim, resources=asked))
        for job in cluster.jobs.values():
            job.cpus = "4"
        cluster.now += 60.0
        told = await witness.until(
            Idle, lambda idle: [one.start_in_s is None for one in idle.waits][1:] == [False, False]
        )
    assert [one.start_in_s for one in told.waits] == [None, 600.0, 600.0]


async def test_a_job_that_can_never_start_is_taken_out_and_an_agents_death_forgets_no_reason(
    serve: Serve, cluster: Cluster, placeholder: Placeholder
) -> None:
    async with serve() as (manager, _):
        await manager.submit(placeholder)
        job = cluster.job("1")
        job.reason = "PartitionTimeLimit"
        await manager.listing()
    async with serve() as (_, witness):
        end = await witness.ended(CLAIM)
    assert (end.cause, end.reason) == (
        EndCause.WITHDRAWN,
        "it would never start: PartitionTimeLimit: it asks for more time than its partition allows",
    )
    assert job.state == "CANCELLED"


async def test_a_user_who_may_not_have_more_has_nothing_startable(
    serve: Serve, cluster: Cluster, placeholder: Placeholder
) -> None:
    async with serve() as (manager, witness):
        await witness.until(Idle, lambda idle: idle.startable == 16)
        await manager.submit(placeholder)
        cluster.job("1").reason = "QOSMaxJobsPerUserLimit"
        await witness.until(Idle, lambda idle: idle.startable == 0 and bool(idle.why))
        await manager.withdraw(CLAIM)
        await witness.ended(CLAIM)
        cluster.now += 30.0
        assert (await manager.idle()).startable == 0  # till it may have changed
        cluster.now += 60.0
        assert (await manager.idle()).startable == 16


class Telling(Slurm):
    """Slurm, if it had a command that tells why a job waits."""

    def explain(self, number: str) -> Question:
        """See Dialect."""
        return Question(command=Command(argv=("explain", number)), read=lambda answer: answer.out)


class TellingCluster(Cluster):
    """A cluster whose explanations fail or come."""

    def __init__(self, *, fails: bool) -> None:
        super().__init__()
        self._fails = fails

    async def run(self, command: Command, account: str = "") -> Answer:
        """See Shell."""
        if command.argv[0] != "explain":
            return await super().run(command, account)
        self.hear(command)
        if self._fails:
            raise LocalManagerError("explain: no such command")
        return Answer(status=0, out="others were first", err="")


def telling_manager(cluster: Cluster, folder: Path, witness: Witness) -> BatchManager:
    settings = BatchSettings(
        processors=16,
        state_directory=folder / "lrm",
        scope="ab",
        poll_s=0.01,
        figures_s=0.01,
        accounts=("ann",),
    )
    return BatchManager(settings, Telling(), cluster, on_report=witness, clock=cluster.clock)


@pytest.mark.parametrize("fails", [False, True])
async def test_a_withdrawn_claim_tells_why_it_waited_and_a_failed_question_changes_nothing(
    tmp_path: Path, placeholder: Placeholder, fails: bool
) -> None:
    cluster, witness = TellingCluster(fails=fails), Witness()
    manager = telling_manager(cluster, tmp_path, witness)
    async with serving(manager):
        await manager.submit(replace(placeholder, account="ann"))
        await manager.listing()
        await manager.withdraw(CLAIM)
        end = await witness.ended(CLAIM)
        assert (end.cause, end.waited_for) == (
            EndCause.WITHDRAWN,
            "" if fails else "others were first",
        )
        assert not (await manager.idle()).trouble, "claims of the account go on"


async def test_nobody_asks_why_claims_waited_when_all_are_ended(
    tmp_path: Path, placeholder: Placeholder
) -> None:
    cluster = TellingCluster(fails=False)
    manager = telling_manager(cluster, tmp_path, Witness())
    async with serving(manager):
        await manager.submit(placeholder)
        await manager.listing()
        await manager.close(kill=True)
    assert "1" in cluster.cancelled()
    assert [argv for argv in cluster.said if argv[0] == "explain"] == []
