"""A Slurm of a few lines of Python, which does what real ones do at the worst instant."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from contextlib import AbstractAsyncContextManager
from dataclasses import dataclass

from koala.errors import LocalManagerError
from koala_agent.conformance.witness import Witness
from koala_agent.lrm.batch.batch_manager import BatchManager
from koala_agent.lrm.batch.slurm.nodes import NODE_COLUMNS
from koala_agent.lrm.batch.slurm.queue import COLUMNS
from koala_agent.transport.interface import Answer, Command
from koala_agent.transport.shell import Shell

CLAIM = "j1/1/0/1"
MISSING_S = 10.0
UNRECORDED_S = 120.0
COMMAND_S = 0.02
"""What a command takes by the clock: more than the time after which figures are due."""


def row(columns: tuple[tuple[str, int], ...], *fields: str) -> str:
    return "".join(text.ljust(width) for text, (_, width) in zip(fields, columns, strict=True))


def listed(
    number: str,
    state: str = "PENDING",
    name: str = "job",
    *,
    code: str = "0",
    restarts: str = "0",
    owner: str = "ann",
    processors: str = "1",
    limit: str = "1:00:00",
    left: str = "1:00",
    priority: str = "1",
    partition: str = "batch",
    nodes: str = "",
    wanted: str = "",
    reason: str = "None",
    reservation: str = "(null)",
    comment: str = "(null)",
) -> str:
    """A row of a listing, padded by bytes, as Slurm does."""
    fields = (number, state, code, restarts, owner, processors, limit, left, priority, partition)
    more = (nodes, wanted, "(null)", "N/A", "N/A", reason, reservation, comment, name)
    pairs = zip((*fields, *more), COLUMNS, strict=True)
    return b"".join(text.encode().ljust(width) for text, (_, width) in pairs).decode() + "\n"


def queue_row(
    *fields: str, partition: str = "batch", nodes: str = "", wanted: str = "", name: str = "job"
) -> str:
    """A job of the queue, from its number to its comment, and where it runs or may run."""
    number, state, processors, left, priority, reason, comment = fields
    return listed(
        number,
        state,
        name,
        processors=processors,
        left=left,
        priority=priority,
        partition=partition,
        nodes=nodes,
        wanted=wanted,
        reason=reason,
        comment=comment,
    )


@dataclass(slots=True)
class Job:
    """A batch job as the cluster has it."""

    name: str
    state: str = "PENDING"
    code: int = 0
    reason: str = "None"
    restarts: int = 0
    cpus: str = ""
    is_listed: bool = True
    comment: str = "(null)"
    owner: str = ""
    left: str = "1:00"
    priority: int = 1
    nodes: str = ""
    reservation: str = "(null)"


class Listener(Shell):
    """Keeps what was said to a batch system, and the time.

    Its clock goes on with each command, as a real one does. What is due some time after now thus
    becomes due, though a test puts the clock forward once only, perhaps in the middle of a look.
    """

    def __init__(self) -> None:
        super().__init__(environment={})
        self.said: list[tuple[str, ...]] = []
        self.now = 0.0
        self._heard = asyncio.Event()

    def clock(self) -> float:
        return self.now

    def hear(self, command: Command) -> None:
        self.said.append(command.argv)
        self.now += COMMAND_S
        self._heard.set()

    async def polls(self, count: int = 3) -> None:
        """Returns when the manager has looked so often."""
        wanted = self._looks() + count
        async with asyncio.timeout(90):
            while self._looks() < wanted:
                self._heard.clear()
                await self._heard.wait()

    def _looks(self) -> int:
        return sum(argv[0] == "qstat" or "all" in argv for argv in self.said)


class Cluster(Listener):
    """Slurm, as far as the manager sees it. What goes wrong is set from outside."""

    def __init__(self) -> None:
        super().__init__()
        self.jobs: dict[str, Job] = {}
        self.queue = ""  # jobs of others
        self.is_away = False
        self.has_commands = True
        self.has_records = True
        self.is_deaf_to_submissions = False  # they arrive, and their answers do not
        self.forgets = False
        self.has_figures = True
        self.refusal = ""
        self.config = "PriorityType            = priority/basic\n"
        self.partitions = ""
        self.refused_change = ""  # of a job
        self.is_stubborn = False  # takes changes of jobs, and makes none
        self.cpus = "0/16/0/16"
        self.reservations = ""
        self.before_figures: Callable[[], None] = lambda: None

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
        if not self.has_commands:
            raise LocalManagerError(f"{command.argv[0]} cannot be run: No such file or directory")
        if self.is_away:
            raise LocalManagerError(f"{command.argv[0]} gave no answer in 15 s", transient=True)
        match command.argv:
            case ("sbatch", *options):
                return self._submit([str(option) for option in options])
            case ("squeue", "-h", "-a", "-t", "all", *_):
                return self._list()
            case ("scancel", number):
                return self._cancel(number)
            case ("scontrol", "-o", "show", "job", number):
                return self._show(number)
            case ("scontrol", "update", jobs, *changes):
                return self._update(jobs.removeprefix("JobId=").split(","), changes)
            case _:
                return self._tell(command.argv)

    def _tell(self, argv: tuple[str, ...]) -> Answer:
        """Answer a question about the cluster as a whole."""
        match argv:
            case ("scontrol", "show", "config"):
                return Answer(status=0, out=self.config, err="")
            case ("scontrol", "-o", "show", "partition"):
                return Answer(status=0, out=self.partitions, err="")
            case ("sinfo", *_, "%N"):
                return Answer(status=0, out="n[1-2]\n", err="")
            case ("sinfo", *_) if not self.has_figures:
                return Answer(status=1, out="", err="slurm_load_node error: Socket timed out")
            case ("sinfo", *_):
                self.before_figures()
                node = ("n1", "batch*", "up", self.cpus, "idle", "1", "0", "", "", "", "")
                return Answer(status=0, out=row(NODE_COLUMNS, *node), err="")
            case ("/bin/sh", *_) | (*_, "reservation"):
                return Answer(status=0, out=self.reservations, err="")
            case _:
                return Answer(status=0, out="", err="")

    def _submit(self, options: list[str]) -> Answer:
        if self.refusal:
            return Answer(status=1, out="", err=f"allocation failure: {self.refusal}")
        if "--test-only" in options:
            return Answer(status=0, out="", err="sbatch: Job 1 to start at 2099-01-01T00:00:00")
        number = str(len(self.jobs) + 1)
        (name,) = [option for option in options if option.startswith("--job-name=")]
        comments = [option[10:] for option in options if option.startswith("--comment=")]
        self.jobs[number] = Job(name.partition("=")[2], comment=(*comments, "(null)")[0])
        if self.is_deaf_to_submissions:
            raise LocalManagerError("sbatch gave no answer in 15 s", transient=True)
        return Answer(status=0, out=f"{number}\n", err="")

    def _list(self) -> Answer:
        rows = [
            listed(
                number,
                job.state,
                job.name,
                code=str(job.code),
                restarts=str(job.restarts),
                owner=job.owner,
                processors=job.cpus,
                left=job.left,
                priority=str(job.priority),
                nodes=job.nodes,
                reason=job.reason,
                reservation=job.reservation,
                comment=job.comment,
            )
            for number, job in self.jobs.items()
            if job.is_listed
        ]
        return Answer(status=0, out="".join(rows) + self.queue, err="")

    def _update(self, numbers: list[str], changes: list[str]) -> Answer:
        if self.refused_change and any(
            change.startswith(self.refused_change) for change in changes
        ):
            return Answer(status=1, out="", err=f"Access/permission denied for job {numbers[0]}")
        for number in numbers:
            for change in changes:
                if change.startswith("Comment=") and not self.is_stubborn:
                    self.jobs[number].comment = change[8:]
        return Answer(status=0, out="", err="")

    def changes(self) -> list[tuple[str, ...]]:
        """The changes of jobs: their numbers, and what of them was changed."""
        return [argv[2:] for argv in self.said if argv[:2] == ("scontrol", "update")]

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


def is_free(manager: BatchManager) -> bool:
    """A call, so that the type checker does not take its answer for lasting."""
    return manager.starts_after_stop
