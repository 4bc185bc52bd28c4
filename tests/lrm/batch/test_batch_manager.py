"""The manager of batch systems in front of one that is a few lines of Python: what real ones do at
the worst instant, on purpose."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import AsyncIterator, Callable
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import pytest

from koala.errors import LocalManagerError
from koala_agent.lrm.batch.batch_manager import BatchManager, BatchSettings
from koala_agent.lrm.batch.dialect import BatchJob
from koala_agent.lrm.batch.gridengine import GridEngine
from koala_agent.lrm.batch.slurm import COLUMNS, Slurm
from koala_agent.lrm.batch.slurm_nodes import NODE_COLUMNS
from koala_agent.lrm.port import (
    EndCause,
    Ended,
    Idle,
    Placeholder,
    Queued,
    RequestRefusedError,
    Running,
    serving,
)
from koala_agent.transport.port import Answer, Command
from koala_agent.transport.shell import Shell
from tests.lrm.harness import Witness

CLAIM = "j1/1/0/1"
MISSING_S = 10.0
UNRECORDED_S = 120.0


def row(columns: tuple[tuple[str, int], ...], *fields: str) -> str:
    return "".join(text.ljust(width) for text, (_, width) in zip(fields, columns, strict=True))


@dataclass(slots=True)
class Job:
    """A batch job as the cluster has it."""

    name: str
    state: str = "PENDING"
    code: int = 0
    reason: str = "None"
    restarts: int = 0
    is_listed: bool = True


class Listener(Shell):
    """Keeps what was said to a batch system."""

    def __init__(self) -> None:
        super().__init__(environment={})
        self.said: list[tuple[str, ...]] = []
        self._heard = asyncio.Event()

    def hear(self, command: Command) -> None:
        self.said.append(command.argv)
        self._heard.set()

    async def polls(self, count: int = 3) -> None:
        """Returns when the manager has looked so often."""
        wanted = self._looks() + count
        async with asyncio.timeout(90):
            while self._looks() < wanted:
                self._heard.clear()
                await self._heard.wait()

    def _looks(self) -> int:
        return sum(argv[0] == "qstat" or "-O" in argv for argv in self.said)


class Cluster(Listener):
    """Slurm, as far as the manager sees it. What goes wrong is set from outside."""

    def __init__(self) -> None:
        super().__init__()
        self.jobs: dict[str, Job] = {}
        self.is_away = False
        self.has_records = True
        self.is_deaf_to_submissions = False  # they arrive, and their answers do not
        self.forgets = False
        self.has_figures = True
        self.refusal = ""
        self.now = 0.0

    def clock(self) -> float:
        return self.now

    def job(self, name: str) -> Job:
        """The one under this name."""
        (found,) = [job for job in self.jobs.values() if job.name.endswith(name)]
        return found

    def cancelled(self) -> list[str]:
        """Numbers that were cancelled, each as often as it was."""
        return [argv[1] for argv in self.said if argv[0] == "scancel"]

    async def run(self, command: Command, account: str = "") -> Answer:
        """See Shell."""
        await asyncio.sleep(0)
        self.hear(command)
        if self.is_away:
            raise LocalManagerError(f"{command.argv[0]} gave no answer in 15 s", transient=True)
        match command.argv:
            case ("sbatch", *options):
                return self._submit([str(option) for option in options])
            case ("squeue", *_, "-O", _):
                return self._list()
            case ("scancel", number):
                return self._cancel(number)
            case ("scontrol", "-o", "show", "job", number):
                return self._show(number)
            case ("sinfo", *_) if not self.has_figures:
                return Answer(status=1, out="", err="slurm_load_node error: Socket timed out")
            case ("sinfo", *_):
                node = ("n1", "batch*", "up", "0/16/0/16", "idle", "1", "0", "", "", "")
                return Answer(status=0, out=row(NODE_COLUMNS, *node), err="")
            case _:
                return Answer(status=0, out="", err="")

    def _submit(self, options: list[str]) -> Answer:
        if self.refusal:
            return Answer(status=1, out="", err=f"allocation failure: {self.refusal}")
        if "--test-only" in options:
            return Answer(status=0, out="", err="sbatch: Job 1 to start at 2099-01-01T00:00:00")
        number = str(len(self.jobs) + 1)
        (name,) = [option for option in options if option.startswith("--job-name=")]
        self.jobs[number] = Job(name.partition("=")[2])
        if self.is_deaf_to_submissions:
            raise LocalManagerError("sbatch gave no answer in 15 s", transient=True)
        return Answer(status=0, out=f"{number}\n", err="")

    def _list(self) -> Answer:
        lines = [
            row(COLUMNS, number, job.state, str(job.code), str(job.restarts), job.name, job.reason)
            for number, job in self.jobs.items()
            if job.is_listed
        ]
        return Answer(status=0, out="\n".join(lines), err="")

    def _cancel(self, number: str) -> Answer:
        job = self.jobs.get(number)
        if job is not None and job.state in ("PENDING", "RUNNING"):
            job.state, job.code = "CANCELLED", 15
            if self.forgets:
                del self.jobs[number]
        return Answer(status=0, out="", err="")  # for unknown ones, too

    def _show(self, number: str) -> Answer:
        if not self.has_records:
            raise LocalManagerError("scontrol gave no answer in 15 s", transient=True)
        job = self.jobs.get(number)
        if job is None or job.state == "FORGOTTEN":
            err = "slurm_load_jobs error: Invalid job id specified"
            return Answer(status=1, out="", err=err)
        code = f"{job.code >> 8}:{job.code & 127}"
        words = f"JobId={number} JobName={job.name} JobState={job.state} ExitCode={code}"
        return Answer(status=0, out=words, err="")


Serve = Callable[..., AbstractAsyncContextManager[tuple[BatchManager, Witness]]]


@pytest.fixture
def cluster() -> Cluster:
    return Cluster()


@pytest.fixture
def serve(cluster: Cluster, tmp_path: Path) -> Serve:
    @asynccontextmanager
    async def run() -> AsyncIterator[tuple[BatchManager, Witness]]:
        settings = BatchSettings(
            processors=16,
            state_directory=tmp_path / "state",
            scope="ab",
            poll_s=0.01,
            figures_s=0.01,
            missing_s=MISSING_S,
            unrecorded_s=UNRECORDED_S,
        )
        witness = Witness()
        manager = BatchManager(settings, Slurm(), cluster, tell=witness, clock=cluster.clock)
        async with serving(manager):
            yield manager, witness

    return run


@pytest.fixture
def placeholder(tmp_path: Path) -> Placeholder:
    return Placeholder(
        claim=CLAIM, processors=4, time_limit_s=60.0, argv=("true",), directory=tmp_path / "w"
    )


async def test_a_listing_that_leaves_out_a_running_job_ends_nothing(
    serve: Serve, cluster: Cluster, placeholder: Placeholder
) -> None:
    async with serve() as (manager, witness):
        await manager.submit(placeholder)
        cluster.job("1").state = "RUNNING"
        await witness.running(CLAIM)
        cluster.job("1").is_listed = False
        cluster.now += 100 * MISSING_S
        await cluster.polls()
        assert await manager.listing() == (Running(claim=CLAIM),)


async def test_listings_are_read_beside_the_event_loop(
    serve: Serve, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Tens of thousands of other people's jobs take a second to read, and starters ping
    meanwhile."""
    readers: set[int] = set()

    def noted(read: Callable[..., Any]) -> Callable[..., Any]:
        def reading(*arguments: Any) -> Any:
            readers.add(threading.get_ident())
            return read(*arguments)

        return reading

    for name in ("read_jobs", "read_figures"):
        monkeypatch.setattr(Slurm, name, noted(getattr(Slurm, name)))
    async with serve() as (manager, _):
        await manager.idle()
    assert readers
    assert threading.get_ident() not in readers


async def test_an_end_that_is_reported_late_is_waited_for(
    serve: Serve, cluster: Cluster, placeholder: Placeholder
) -> None:
    async with serve() as (manager, witness):
        await manager.submit(placeholder)
        cluster.job("1").state = "RUNNING"
        await witness.running(CLAIM)
        job = cluster.job("1")
        job.is_listed, job.state = False, "FORGOTTEN"
        await cluster.polls()
        assert await manager.listing() == (Running(claim=CLAIM),)
        job.state, job.code = "FAILED", 7 << 8
        assert (await witness.ended(CLAIM)).exit_status == 7


async def test_a_job_that_nobody_knows_any_more_has_ended_some_time_later(
    serve: Serve, cluster: Cluster, placeholder: Placeholder
) -> None:
    async with serve() as (manager, witness):
        await manager.submit(placeholder)
        cluster.job("1").state = "RUNNING"
        await witness.running(CLAIM)
        cluster.jobs.clear()
        await cluster.polls()
        assert not any(isinstance(told, Ended) for told in witness.told)
        cluster.now += MISSING_S
        end = await witness.ended(CLAIM)
        assert (end.cause, end.exit_status) == (EndCause.EXITED, None)


async def test_records_that_nobody_can_look_up_hold_up_nothing_else(
    serve: Serve, cluster: Cluster, placeholder: Placeholder
) -> None:
    """As those of years in one file, of which each end of a claim was the end of its site."""
    another = "j2/1/0/1"
    async with serve() as (manager, witness):
        await manager.submit(placeholder)
        await manager.submit(replace(placeholder, claim=another))
        for number in ("1", "2"):
            cluster.jobs[number].state = "RUNNING"
        await witness.running(another)
        cluster.has_records = False
        cluster.jobs["1"].is_listed = False
        cluster.now += MISSING_S
        await cluster.polls()
        assert (await manager.listing())[0] == Running(claim=CLAIM), "nobody knows how it ended"
        assert not (await manager.idle()).trouble
        cluster.jobs["2"].state = "COMPLETED"
        assert (await witness.ended(another)).exit_status == 0
        cluster.now += UNRECORDED_S
        assert (await witness.ended(CLAIM)).exit_status is None


async def test_a_number_that_was_given_to_another_job_is_ours_no_more(
    serve: Serve, cluster: Cluster, placeholder: Placeholder
) -> None:
    """A controller that lost its state begins with its first number again."""
    async with serve() as (manager, witness):
        await manager.submit(placeholder)
        cluster.job("1").state = "RUNNING"
        await witness.running(CLAIM)
        cluster.jobs["1"] = Job("somebody's", "RUNNING")
        await cluster.polls()
        await manager.withdraw(CLAIM)
        await cluster.polls()
        cluster.now += MISSING_S
        assert (await witness.ended(CLAIM)).cause is EndCause.WITHDRAWN
        assert cluster.cancelled() == []
        assert cluster.jobs["1"].state == "RUNNING"


async def test_a_number_of_an_earlier_life_is_not_cancelled_before_it_was_seen(
    serve: Serve, cluster: Cluster, placeholder: Placeholder
) -> None:
    async with serve() as (manager, witness):
        await manager.submit(placeholder)
        cluster.job("1").state = "RUNNING"
        await witness.running(CLAIM)
    mine, cluster.jobs["1"] = cluster.jobs["1"], Job("somebody's", "RUNNING")
    async with serve() as (manager, _):
        cluster.is_away = True
        await manager.withdraw(CLAIM)
        cluster.is_away = False
        await cluster.polls()
        assert cluster.cancelled() == []
    cluster.jobs["1"] = mine
    async with serve() as (manager, witness):
        assert (await witness.ended(CLAIM)).cause is EndCause.WITHDRAWN
        assert set(cluster.cancelled()) == {"1"}


async def test_a_second_job_under_our_name_does_not_hide_the_end_of_the_first(
    serve: Serve, cluster: Cluster, placeholder: Placeholder
) -> None:
    """A submission that arrived twice; what was cancelled stays in the listing for long."""
    async with serve() as (manager, witness):
        await manager.submit(placeholder)
        cluster.job("1").state = "RUNNING"
        await witness.running(CLAIM)
        cluster.jobs["2"] = Job(cluster.jobs.pop("1").name, "CANCELLED")
        await cluster.polls()
        cluster.now += MISSING_S
        assert (await witness.ended(CLAIM)).cause is EndCause.EXITED


async def test_a_job_that_was_forgotten_and_is_there_again_is_cancelled(
    serve: Serve, cluster: Cluster, placeholder: Placeholder
) -> None:
    """It counted as ended meanwhile, and its claim is nobody's any more."""
    async with serve() as (manager, witness):
        await manager.submit(placeholder)
        cluster.job("1").state = "RUNNING"
        await witness.running(CLAIM)
        forgotten = cluster.jobs.pop("1")
        await cluster.polls()
        cluster.now += MISSING_S
        await witness.ended(CLAIM)
        cluster.jobs["1"] = forgotten
        async with asyncio.timeout(90):
            while forgotten.state == "RUNNING":
                await cluster.polls(1)


async def test_silence_changes_nothing_however_long_it_lasts(
    serve: Serve, cluster: Cluster, placeholder: Placeholder
) -> None:
    async with serve() as (manager, witness):
        await manager.submit(placeholder)
        cluster.job("1").state = "RUNNING"
        await witness.running(CLAIM)
        cluster.is_away = True
        cluster.now += 3600.0
        await cluster.polls()
        with pytest.raises(LocalManagerError) as caught:
            await manager.listing()
        assert caught.value.transient
        cluster.is_away = False
        assert await manager.listing() == (Running(claim=CLAIM),)


async def test_nothing_is_startable_while_the_controller_is_away(
    serve: Serve, cluster: Cluster
) -> None:
    """So that jobs which may run elsewhere are placed there."""
    async with serve() as (manager, witness):
        await witness.until(Idle, lambda idle: idle.startable == 16)
        assert is_free(manager)
        witness.told.clear()
        cluster.is_away = True
        gone = await witness.until(Idle, lambda idle: idle.startable == 0)
        assert "the batch system gives no answer (" in gone.trouble
        assert (gone.processors, gone.idle) == (16, 0)
        assert await manager.idle() == gone
        assert not is_free(manager)
        cluster.is_away = False
        await witness.until(Idle, lambda idle: idle.startable == 16)


async def test_listings_without_figures_are_no_answer(serve: Serve, cluster: Cluster) -> None:
    """Neither at the start, when there never were any, nor later, when those there are grow old."""
    cluster.has_figures = False
    async with serve() as (manager, witness):
        await cluster.polls(5)
        assert not is_free(manager)
        cluster.has_figures = True
        await witness.until(Idle, lambda idle: idle.startable == 16)
        witness.told.clear()
        cluster.has_figures = False
        cluster.now += 1.0
        await witness.until(Idle, lambda idle: idle.startable == 0)
        witness.told.clear()
        await cluster.polls(5)
        assert witness.told == [], "nothing is offered as long as they are missing"
        assert not is_free(manager)


def is_free(manager: BatchManager) -> bool:
    """A call, so that the type checker does not take its answer for lasting."""
    return manager.starts_after_stop


async def submit_unheard(manager: BatchManager, cluster: Cluster, placeholder: Placeholder) -> None:
    """It arrives, and the answer does not."""
    cluster.is_deaf_to_submissions = True
    with pytest.raises(LocalManagerError) as caught:
        await manager.submit(placeholder)
    assert caught.value.transient
    cluster.is_deaf_to_submissions = False


async def test_a_submission_whose_answer_was_lost_is_found_by_its_name_and_not_repeated(
    serve: Serve, cluster: Cluster, placeholder: Placeholder
) -> None:
    async with serve() as (manager, _):
        await submit_unheard(manager, cluster, placeholder)
    async with serve() as (manager, witness):  # the agent was killed meanwhile
        await manager.submit(placeholder)
        assert list(cluster.jobs) == ["1"]
        assert manager.number(CLAIM) == "1"
        cluster.job("1").state = "RUNNING"
        await witness.running(CLAIM)


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
    manager = BatchManager(settings, Slurm(), cluster, tell=Witness(), clock=cluster.clock)
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


async def test_a_submission_that_arrives_after_its_repetition_is_cancelled(
    serve: Serve, cluster: Cluster, placeholder: Placeholder
) -> None:
    async with serve() as (manager, _):
        await submit_unheard(manager, cluster, placeholder)
        late = cluster.jobs.pop("1")
        await cluster.polls()
        cluster.jobs["9"] = Job("other")  # so that the numbers differ
        await manager.submit(placeholder)
        assert manager.number(CLAIM) == "2"
        cluster.jobs["1"] = late
        async with asyncio.timeout(90):
            while late.state == "PENDING":
                await cluster.polls(1)
        assert set(cluster.cancelled()) == {"1"}


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
        await manager.submit(placeholder)
        assert await manager.listing() == (Queued(claim=CLAIM),)


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
        "it would never start: PartitionTimeLimit",
    )
    assert job.state == "CANCELLED"


@pytest.mark.parametrize("state", ["PENDING", "RUNNING"])
async def test_a_job_that_is_put_back_into_the_queue_does_not_run_again(
    serve: Serve, cluster: Cluster, placeholder: Placeholder, state: str
) -> None:
    """In spite of --no-requeue: an administrator can change a job."""
    async with serve() as (manager, witness):
        await manager.submit(placeholder)
        job = cluster.job("1")
        job.state = "RUNNING"
        await witness.running(CLAIM)
        job.state, job.restarts = state, 1
        end = await witness.ended(CLAIM)
        assert end.cause is EndCause.CANCELLED_BY_SITE
        assert "put it back" in end.reason
        assert set(cluster.cancelled()) == {"1"}


async def test_a_node_that_does_not_answer_is_no_end_that_is_known(
    serve: Serve, cluster: Cluster, placeholder: Placeholder
) -> None:
    async with serve() as (manager, witness):
        await manager.submit(placeholder)
        cluster.job("1").state = "NODE_FAIL"
        assert (await witness.ended(CLAIM)).cause is EndCause.UNREACHABLE


async def test_a_user_who_may_not_have_more_has_nothing_startable(
    serve: Serve, cluster: Cluster, placeholder: Placeholder
) -> None:
    async with serve() as (manager, witness):
        await witness.until(Idle, lambda idle: idle.startable == 16)
        await manager.submit(placeholder)
        cluster.job("1").reason = "QOSMaxJobsPerUserLimit"
        cluster.now += 1.0  # a look may have seen it before that: figures are due again
        await witness.until(Idle, lambda idle: idle.idle == 12 and idle.startable == 0)
        await manager.withdraw(CLAIM)
        cluster.now += 30.0
        assert (await manager.idle()).startable == 0  # till it may have changed
        cluster.now += 60.0
        assert (await manager.idle()).startable == 16


async def test_a_double_is_cancelled_till_it_is_gone_and_not_after(
    serve: Serve, cluster: Cluster, placeholder: Placeholder
) -> None:
    """Its number may be somebody else's next time."""
    async with serve() as (manager, _):
        await manager.submit(placeholder)
        cluster.jobs["2"] = Job(cluster.job("1").name)
        cluster.jobs["3"] = Job("koala-cd-j1.1.0.1")  # of another agent
        cluster.jobs["4"] = Job("koala-ab-j1.1.0")  # like ours, and none of ours
        cluster.forgets = True  # what is cancelled is in no listing any more
        async with asyncio.timeout(90):
            while "2" in cluster.jobs:
                await cluster.polls(1)
        await cluster.polls()
        cancelled = cluster.cancelled()
        assert set(cancelled) == {"2"}
        await cluster.polls()
        assert cluster.cancelled() == cancelled
        assert [job.state for job in cluster.jobs.values()] == ["PENDING"] * 3


LISTING = """<?xml version='1.0'?><job_info><queue_info><job_list state="running">
<JB_job_number>{number}</JB_job_number><JB_name>{name}</JB_name><JB_owner>{owner}</JB_owner>
<state>r</state><slots>1</slots></job_list></queue_info></job_info>"""


class Cell(Listener):
    """A Grid Engine in which somebody runs a job under our name."""

    def __init__(self, owner: str) -> None:
        super().__init__()
        self.owner = owner

    async def run(self, command: Command, account: str = "") -> Answer:
        """See Shell."""
        await asyncio.sleep(0)
        self.hear(command)
        number, name = "7", "koala-ab-j1.1.0.1"
        out = LISTING.format(number=number, name=name, owner=self.owner)
        return Answer(status=0, out=out, err="")


@pytest.mark.parametrize(("owner", "cancelled"), [("ann", ["7"]), ("bob", [])])
async def test_a_job_under_our_name_is_ours_if_it_is_our_accounts(
    tmp_path: Path, owner: str, cancelled: list[str]
) -> None:
    """Names of batch jobs can be read by everybody, and a manager of the cell may end any job."""
    cell = Cell(owner)
    settings = BatchSettings(
        processors=16,
        state_directory=tmp_path,
        scope="ab",
        poll_s=0.01,
        figures_s=0.01,
        account="ann",
    )
    witness = Witness()
    dialect = GridEngine(parallel_environment="grid")
    manager = BatchManager(settings, dialect, cell, tell=witness, clock=lambda: 0.0)
    async with serving(manager):
        listed = await manager.listing()
        assert len(listed) == len(cancelled)
        await witness.until(Idle, lambda _: True)
        await cell.polls(8)
    assert sorted({argv[1] for argv in cell.said if argv[0] == "qdel"}) == cancelled
