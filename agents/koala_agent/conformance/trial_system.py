"""A batch system on trial: managers in front of it, jobs for it, and a look past the managers."""

from __future__ import annotations

import asyncio
import secrets
from collections import Counter, deque
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass
from functools import wraps
from pathlib import Path
from typing import TypeVar, cast

from koala.common.runtime import clock
from koala.errors import LocalManagerError
from koala_agent.conformance.finding_texts import (
    exchange_text,
    jobs_text,
    quoted,
    silence_text,
)
from koala_agent.conformance.witness import Witness
from koala_agent.lrm.batch.batch_manager import BatchManager
from koala_agent.lrm.batch.batch_settings import BatchSettings
from koala_agent.lrm.dialect import NAME_MAX, BatchJob, Dialect, JobState, job_name, script
from koala_agent.lrm.local_manager import OUTPUT_FILE, Placeholder
from koala_agent.transport.interface import Answer, Command, CommandRunner

Seen = TypeVar("Seen")
CLAIM = "j1/1/0/1"
OTHER_CLAIM = "j1/1/1/1"
LATER_CLAIM = "j1/1/2/1"
LONG_S = 600
"""Duration of jobs that are ended before."""
OUTPUT_MAX = 65_536
FAILURES_MAX = 3
"""Failed commands that a check shows, each kind of failure once."""
ANSWERS_KEPT = 32
"""Answers that may be with a reader of the dialect at a time."""


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
    - `time_limit_s`: a short time limit, by default no whole minute.
    """

    processors: int
    folder: Path
    account: str
    limit_s: float = 120.0
    poll_s: float = 1.0
    time_limit_s: float = 90.0


class Bench:
    """A batch system, as one check sees it. Its jobs have a scope of their own, and are ended by
    `clear`."""

    def __init__(self, dialect: Dialect, runner: CommandRunner, settings: BenchSettings) -> None:
        self.failures = Failures(runner)
        self.dialect = self.failures.noted(dialect)
        self.settings = settings
        self.scope = secrets.token_hex(4)
        self.longest_claim = _longest_claim(self.scope)
        self._runner: CommandRunner = self.failures

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
        self,
        read: Callable[[], Awaitable[Seen]],
        is_right: Callable[[Seen], bool],
        expected: str,
        *,
        describe: Callable[[Seen], str] = str,
    ) -> Seen:
        """Read again and again, until what is seen is right. Raises LocalManagerError with what
        was seen, as `describe` puts it."""
        deadline = clock.now() + self.settings.limit_s
        while not is_right(seen := await read()):
            if clock.now() > deadline:
                limit = f"{self.settings.limit_s:g} s"
                raise LocalManagerError(
                    f"seen after {limit}: {describe(seen)} (expected {expected})"
                )
            await asyncio.sleep(self.settings.poll_s)
        return seen

    async def has_written(self, job: Placeholder, expected: bytes) -> None:
        """Wait until the output of a job has arrived. Raises LocalManagerError."""

        async def read() -> bytes:
            with suppress(FileNotFoundError):
                written = (job.directory / OUTPUT_FILE).read_bytes()[:OUTPUT_MAX]
                place = job.directory / OUTPUT_FILE
                text = f"{quoted(written)} in {place} (expected {quoted(expected)} as its output)"
                expect(expected.startswith(written), text)
                return written
            return b""

        right = f"{quoted(expected)} as its output"
        await self.until(read, lambda seen: seen == expected, right, describe=quoted)

    async def clear(self) -> None:
        """End all jobs of this bench, and wait until none is left. Raises LocalManagerError."""

        async def cancel_all() -> list[BatchJob]:
            alive = await self.alive()
            for job in alive:
                await self.cancel(job.number)
            return alive

        right = "an end of all cancelled jobs"
        await self.until(cancel_all, lambda alive: not alive, right, describe=jobs_text)


def _longest_claim(scope: str) -> str:
    """Return a claim whose batch job has the longest name that Koala may give."""
    numbers = "/999999999" * 3
    return f"j{'9' * (NAME_MAX - len(job_name('j' + numbers, scope=scope)))}{numbers}"


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


class Failures:
    """A `CommandRunner` that notes which commands failed: by their exit status, without an answer,
    or because the dialect did not accept their answer."""

    def __init__(self, runner: CommandRunner) -> None:
        self._runner = runner
        self._answered: deque[tuple[Command, Answer]] = deque(maxlen=ANSWERS_KEPT)
        self._failed: list[tuple[Command, Answer | str]] = []

    async def run(self, command: Command, account: str = "") -> Answer:
        """See `CommandRunner`."""
        try:
            answer = await self._runner.run(command, account)
        except LocalManagerError as error:
            self._failed.append((command, str(error)))
            raise
        self._answered.append((command, answer))
        if answer.status:
            self._failed.append((command, answer))
        return answer

    def noted(self, dialect: Dialect) -> Dialect:
        """Return the dialect with each answer noted that it does not accept."""
        return cast("Dialect", _NotedDialect(dialect, self))

    def note_refused(self, answer: object) -> None:
        """Note the answer, or the last of several, that a reader of the dialect did not accept."""
        last = answer[-1] if isinstance(answer, tuple) and answer else answer
        for command, said in self._answered:
            if said is last and not said.status:
                self._failed.append((command, said))

    @property
    def text(self) -> str:
        """The failures in words, the first of each kind."""
        kinds: Counter[tuple[str, str]] = Counter()
        firsts: dict[tuple[str, str], tuple[Command, Answer | str]] = {}
        for command, answer in self._failed:
            detail = answer if isinstance(answer, str) else f"{answer.status} {answer.err}"
            kind = (command.argv[0], detail)
            kinds[kind] += 1
            firsts.setdefault(kind, (command, answer))
        shown = []
        for kind, (command, answer) in list(firsts.items())[:FAILURES_MAX]:
            if isinstance(answer, str):
                shown.append(silence_text(command, answer, count=kinds[kind]))
            else:
                shown.append(exchange_text(command, answer, count=kinds[kind]))
        return "\n".join(shown)


class _NotedDialect:
    def __init__(self, dialect: Dialect, failures: Failures) -> None:
        self._dialect = dialect
        self._failures = failures

    def __getattr__(self, name: str) -> object:
        value = getattr(self._dialect, name)
        return self._noted(value) if name.startswith("read_") else value

    def _noted(self, read: Callable[..., object]) -> Callable[..., object]:
        @wraps(read)
        def run(answer: object, **named: object) -> object:
            try:
                return read(answer, **named)
            except LocalManagerError:
                self._failures.note_refused(answer)
                raise

        return run
