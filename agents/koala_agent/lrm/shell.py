"""Running one command of a batch system: an argv with a time limit, its whole answer, nothing else.

A controller that is away makes its commands block for many seconds, so every call has a limit, and
"no answer" is an error that may pass (`transient`), never an answer. Nothing goes through a shell.
"""

from __future__ import annotations

import asyncio
import os
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass, field

from koala.errors import LocalManagerError

OUTPUT_MAX_BYTES = 64 * 1024 * 1024
"""Of a command; what is more is not kept."""
PART_BYTES = 256 * 1024
LEFT_MAX = 4
"""Commands of an account that were given up, could not be killed and have not ended: then no more
begin."""
END_S = 2.0
"""How long a command that was killed is waited for: a file system that hangs holds it for ever."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Command:
    """An argv, and what it reads from standard input."""

    argv: tuple[str, ...]
    stdin: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Answer:
    """What a command that ended by itself said."""

    status: int
    out: str
    err: str

    def complaint(self) -> str:
        """Its words for a person: the last line with something to say."""
        lines = [line.strip() for line in (self.err.strip() or self.out.strip()).splitlines()]
        lines = [line for line in lines if line and line != "Exiting."]
        words = lines[-1][:500] if lines else f"exit status {self.status}"
        return "".join(c if c.isprintable() else " " for c in words)


@dataclass(frozen=True, slots=True, kw_only=True)
class Entry:
    """How to become an account: words before a command. `environment` says who it is, and
    `is_own_process` that the words become the command, with the same process id."""

    prefix: tuple[str, ...] = ()
    environment: Mapping[str, str] = field(default_factory=dict)
    is_own_process: bool = False

    def over(self, environment: Mapping[str, str]) -> dict[str, str]:
        """These variables, as the account."""
        kept = {name: value for name, value in environment.items() if name != "TMPDIR"}
        return {**(kept if self.prefix else environment), **self.environment}

    def alone(self) -> dict[str, str]:
        """What the account gets where nothing else is said: little, for the agent's environment is
        a service's."""
        names = ("PATH", "LANG", "TZ")
        return self.over({name: os.environ[name] for name in names if name in os.environ})


class Shell:
    """Runs commands, at most `at_once` of them at a time, each for `limit_s` at most; as an account
    where `entries` say how to become it. With this `umask`, -1 being ours: batch systems hand it on
    to the jobs that are submitted."""

    def __init__(
        self,
        *,
        environment: Mapping[str, str],
        limit_s: float = 15.0,
        at_once: int = 8,
        entries: Mapping[str, Entry] | None = None,
        umask: int = -1,
    ) -> None:
        self._environment = dict(environment)
        self._entries = entries or {}
        self._limit_s = limit_s
        self._umask = umask
        self._places = asyncio.Semaphore(at_once)
        self._left: dict[str, list[asyncio.subprocess.Process]] = {}

    async def run(self, command: Command, account: str = "") -> Answer:
        """The answer, whatever its status; an empty account is the agent's own. Raises
        LocalManagerError: transient when the command did not end within the limit, said more than
        is kept, or too many are left that did not end; final when there is no such command."""
        entry = Entry()
        if account:
            if account not in self._entries:
                raise LocalManagerError(f"as {account}: the configuration names it no more")
            entry = self._entries[account]
        self._left[account] = [left for left in self._left.get(account, ()) if not has_ended(left)]
        if len(self._left[account]) >= LEFT_MAX:
            message = f"as {account}: {LEFT_MAX} commands have not ended and cannot be killed"
            raise LocalManagerError(message, transient=True)
        async with self._places:
            try:
                process = await asyncio.create_subprocess_exec(
                    *entry.prefix,
                    *command.argv,
                    stdin=asyncio.subprocess.PIPE,
                    stdout=asyncio.subprocess.PIPE,
                    stderr=asyncio.subprocess.PIPE,
                    env=entry.over(self._environment),
                    # Where an account may be; the agent's own folder need not be readable for it.
                    cwd="/" if account else None,
                    limit=PART_BYTES,
                    umask=self._umask,
                )
            except OSError as error:
                name = (*entry.prefix, *command.argv)[0]
                raise LocalManagerError(f"{name} cannot be run: {error}") from error
            try:
                return await self._answer(process, command)
            finally:
                if not has_ended(process):
                    self._left[account].append(process)

    async def _answer(self, process: asyncio.subprocess.Process, command: Command) -> Answer:
        try:
            async with asyncio.timeout(self._limit_s):
                out, err = await _converse(process, command.stdin)
        except TimeoutError as error:
            message = f"{command.argv[0]} gave no answer in {self._limit_s:g} s"
            raise LocalManagerError(message, transient=True) from error
        finally:
            if process.returncode is None:
                await end(process)
        if len(out) + len(err) > OUTPUT_MAX_BYTES:
            message = f"{command.argv[0]} said more than {OUTPUT_MAX_BYTES} bytes"
            raise LocalManagerError(message, transient=True)
        assert process.returncode is not None
        return Answer(
            status=process.returncode,
            out=out.decode(errors="replace"),
            err=err.decode(errors="replace"),
        )


async def _converse(process: asyncio.subprocess.Process, text: str) -> tuple[bytes, bytes]:
    """What it says on both ways until it has ended; a little more than is kept, if it says more."""
    assert process.stdin is not None
    assert process.stdout is not None
    assert process.stderr is not None
    async with asyncio.TaskGroup() as group:
        group.create_task(_feed(process.stdin, text))
        out = group.create_task(_hear(process.stdout))
        err = group.create_task(_hear(process.stderr))
        group.create_task(process.wait())
    return out.result(), err.result()


async def _feed(stdin: asyncio.StreamWriter, text: str) -> None:
    with suppress(ConnectionError):  # it did not want to hear it: its answer says why
        stdin.write(text.encode())
        await stdin.drain()
    stdin.close()


async def _hear(stream: asyncio.StreamReader) -> bytes:
    """What is run as an account is in the account's hands, and may go on for ever."""
    said = bytearray()
    while part := await stream.read(PART_BYTES):
        if len(said) <= OUTPUT_MAX_BYTES:
            said += part
    return bytes(said)


def has_ended(process: asyncio.subprocess.Process) -> bool:
    """A call, because it changes by itself."""
    return process.returncode is not None


async def end(process: asyncio.subprocess.Process) -> None:
    """Kills it and waits for it, but not for ever; nor for one that became root on its way to an
    account (sudo), which is not ours to kill. The loop's child watcher sees it go, some time."""
    with suppress(ProcessLookupError, PermissionError, TimeoutError):
        process.kill()
        async with asyncio.timeout(END_S):
            await process.wait()


def plain_environment(additions: Mapping[str, str]) -> dict[str, str]:
    """What commands of a batch system need, and no more: they hand it on to every batch job.
    Messages in the C locale, because they are read by a program."""
    names = ("PATH", "HOME", "USER", "LOGNAME", "SHELL", "TMPDIR", "TZ")
    kept = {name: os.environ[name] for name in names if name in os.environ}
    return {**kept, "LC_ALL": "C", **additions}
