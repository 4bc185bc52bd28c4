"""A batch system on trial: managers in front of it, jobs for it, and a look past the managers."""

from __future__ import annotations

import asyncio
import secrets
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import TypeVar

from koala.common.runtime import clock
from koala.errors import LocalManagerError
from koala_agent.conformance.witness import Witness
from koala_agent.lrm.batch.batch_manager import BatchManager, BatchSettings
from koala_agent.lrm.dialect import BatchJob, Dialect, JobState, job_name, script
from koala_agent.lrm.local_manager import OUTPUT_FILE, Placeholder
from koala_agent.transport.interface import Answer, Command, CommandRunner

Seen = TypeVar("Seen")
CLAIM = "j1/1/0/1"
OTHER_CLAIM = "j1/1/1/1"
LATER_CLAIM = "j1/1/2/1"
LONG_S = 600
"""Duration of jobs that are ended before."""
OUTPUT_MAX = 65_536


def expect(is_right: object, found: str) -> None:
    """Raise LocalManagerError with these words unless it is right."""
    if not is_right:
        raise LocalManagerError(found)


@dataclass(frozen=True, slots=True, kw_only=True)
class BenchSettings:
    """Settings of a bench.

    - `processors`: those that Koala may use, `folder`: one that the machines of the jobs see.
    - `account`: the name under which the batch system knows our jobs.
    - `limit_s`: longest wait for one thing to happen; `poll_s`: between two looks at the listing.
    - `time_limit_s`: the shortest time limit of a job that the batch system keeps.
    """

    processors: int
    folder: Path
    account: str
    limit_s: float = 120.0
    poll_s: float = 1.0
    time_limit_s: float = 60.0


class Bench:
    """A batch system, as one check sees it. Its jobs have a scope of their own, and are ended by
    `clear`."""

    def __init__(self, dialect: Dialect, runner: CommandRunner, settings: BenchSettings) -> None:
        self.dialect = dialect
        self.settings = settings
        self.scope = secrets.token_hex(4)
        self._runner = runner

    @asynccontextmanager
    async def serving(
        self, *, lose_answer_to: Command | None = None
    ) -> AsyncIterator[tuple[BatchManager, Witness]]:
        """Run a manager around a block; its jobs run on. The answer to the command
        `lose_answer_to` gets lost on its way to the manager."""
        settings = BatchSettings(
            processors=self.settings.processors,
            state_directory=self.settings.folder / "state",
            scope=self.scope,
            poll_s=self.settings.poll_s,
            figures_s=2 * self.settings.poll_s,
            missing_s=min(10.0, self.settings.limit_s / 2),
            account=self.settings.account,
        )
        witness = Witness(self.settings.limit_s)
        runner = (
            self._runner if lose_answer_to is None else LosingRunner(self._runner, lose_answer_to)
        )
        manager = BatchManager(settings, self.dialect, runner, on_report=witness, clock=clock.now)
        async with asyncio.TaskGroup() as group:
            group.create_task(manager.run())
            await manager.opened()
            yield manager, witness
            await manager.close()

    def job(
        self,
        claim: str = CLAIM,
        *argv: str,
        processors: int = 1,
        time_limit_s: float = LONG_S,
        environment: tuple[tuple[str, str], ...] = (),
        is_gated: bool = False,
    ) -> Placeholder:
        """Make a job; unless told otherwise it sleeps until it is ended."""
        return Placeholder(
            claim=claim,
            processors=processors,
            time_limit_s=time_limit_s,
            argv=argv or ("sleep", str(LONG_S)),
            environment=environment,
            is_gated=is_gated,
            directory=self.settings.folder / "work" / claim.replace("/", "-"),
        )

    def name(self, claim: str = CLAIM) -> str:
        """Return the name of a claim's batch job."""
        return job_name(claim, scope=self.scope)

    def submission(self, job: Placeholder, *, name: str = "") -> Command:
        """Return the command by which a manager submits the job."""
        text = script(job, scope=self.scope)
        return self.dialect.submit(job, name=name or self.name(job.claim), script=text)

    async def submit(self, job: Placeholder, *, name: str = "") -> str:
        """Submit the job past all managers; return its number."""
        job.directory.mkdir(parents=True, exist_ok=True)
        answer = await self._runner.run(self.submission(job, name=name))
        return self.dialect.read_submitted(answer)

    async def cancel(self, number: str) -> None:
        """Cancel a job past all managers, as somebody else would."""
        self.dialect.read_withdrawn(await self._runner.run(self.dialect.withdraw(number)))

    async def listed(self) -> list[BatchJob]:
        """List the jobs of the account."""
        return self.dialect.read_jobs(await self._runner.run(self.dialect.list_jobs()))

    async def alive(self) -> list[BatchJob]:
        """List the jobs of this bench that have not ended."""
        start = job_name("", scope=self.scope)
        jobs = await self.listed()
        return [job for job in jobs if job.name.startswith(start) and job.state in NOT_ENDED]

    async def answers(self, commands: tuple[Command, ...]) -> tuple[Answer, ...]:
        """Run commands in turn."""
        return tuple([await self._runner.run(command) for command in commands])

    async def until(
        self, read: Callable[[], Awaitable[Seen]], is_right: Callable[[Seen], bool], expected: str
    ) -> Seen:
        """Read again and again, until what is seen is right. Raises LocalManagerError."""
        deadline = clock.now() + self.settings.limit_s
        while not is_right(seen := await read()):
            if clock.now() > deadline:
                limit = f"{self.settings.limit_s:g} s"
                raise LocalManagerError(f"not seen in {limit} (expected {expected}): {seen}")
            await asyncio.sleep(self.settings.poll_s)
        return seen

    async def has_written(self, job: Placeholder, expected: bytes) -> None:
        """Wait until the output of a job has arrived. Raises LocalManagerError."""

        async def read() -> bytes:
            with suppress(FileNotFoundError):
                written = (job.directory / OUTPUT_FILE).read_bytes()[:OUTPUT_MAX]
                text = f"{written!r} in {job.directory / OUTPUT_FILE} (expected {expected!r})"
                expect(expected.startswith(written), text)
                return written
            return b""

        await self.until(read, lambda seen: seen == expected, f"{expected!r} as its output")

    async def clear(self) -> None:
        """End all jobs of this bench, and wait until none is left. Raises LocalManagerError."""

        async def cancel_all() -> list[BatchJob]:
            alive = await self.alive()
            for job in alive:
                await self.cancel(job.number)
            return alive

        await self.until(cancel_all, lambda alive: not alive, "an end of all cancelled jobs")


NOT_ENDED = tuple(state for state in JobState if state is not JobState.ENDED)


class LosingRunner:
    """A `CommandRunner` that loses the answers to one command, as an agent does that is killed."""

    def __init__(self, runner: CommandRunner, lose_answer_to: Command) -> None:
        self._runner = runner
        self._lose_answer_to = lose_answer_to

    async def run(self, command: Command, account: str = "") -> Answer:
        """See `CommandRunner`."""
        answer = await self._runner.run(command, account)
        if command == self._lose_answer_to:
            raise LocalManagerError("the answer was lost on purpose", transient=True)
        return answer
