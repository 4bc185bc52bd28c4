"""Execution of one command of a batch system: an argv with a time limit, its whole answer.

A controller that is away makes its commands block for many seconds. So every call has a limit, and
"no answer" is a `transient` error, never an answer. No command line passes through a shell.
"""

from __future__ import annotations

import asyncio
import os
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field

from koala.errors import LocalManagerError
from koala_agent import environments
from koala_agent.transport.interface import Answer, Command

OUTPUT_MAX_BYTES = 64 * 1024 * 1024
"""Output of a command that is kept."""
PART_BYTES = 256 * 1024
LEFT_MAX = 4
"""Unkillable commands of an account that still run: at this number no more are started."""
END_S = 2.0
"""Longest wait for a command that was killed: a file system that hangs never releases it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class AccountSwitch:
    """Way to become an account: words before a command. `environment` identifies the account."""

    prefix: tuple[str, ...] = ()
    environment: Mapping[str, str] = field(default_factory=dict)

    def over(self, environment: Mapping[str, str]) -> dict[str, str]:
        """Return these variables, adapted to the account."""
        kept = {name: value for name, value in environment.items() if name != "TMPDIR"}
        return {**(kept if self.prefix else environment), **self.environment}

    def alone(self) -> dict[str, str]:
        """Return a minimal environment for the account, because the agent's is a service's."""
        names = ("PATH", "LANG", "TZ")
        return self.over({name: os.environ[name] for name in names if name in os.environ})


class Shell:
    """Runner of commands, at most `at_once` of them at a time, each for at most `limit_s`; as an
    account where `switches` say how to become it. `umask` -1 is ours: batch systems pass it on to
    the jobs that are submitted. `programs` makes the environment of commands that hand theirs
    on, without some variables."""

    def __init__(
        self,
        *,
        environment: Mapping[str, str],
        programs: Callable[[Sequence[str]], Mapping[str, str]] | None = None,
        limit_s: float = 15.0,
        at_once: int = 8,
        switches: Mapping[str, AccountSwitch] | None = None,
        umask: int = -1,
    ) -> None:
        self._environment = dict(environment)
        self._programs = programs
        self._switches = switches or {}
        self._limit_s = limit_s
        self._umask = umask
        self._slots = asyncio.Semaphore(at_once)
        self._unkilled: dict[str, list[asyncio.subprocess.Process]] = {}

    async def run(self, command: Command, account: str = "") -> Answer:
        """Run a command and return its answer, whatever its status; an empty account is the agent's
        own.

        Raises LocalManagerError: transient when the command did not end within the limit, printed
        too much, or too many earlier ones cannot be killed; final when there is no such command.
        """
        entry = AccountSwitch()
        if account:
            if account not in self._switches:
                raise LocalManagerError(
                    f"as {account}: the configuration does not name it any more"
                )
            entry = self._switches[account]
        self._unkilled[account] = [
            left for left in self._unkilled.get(account, ()) if not has_ended(left)
        ]
        if len(self._unkilled[account]) >= LEFT_MAX:
            message = f"as {account}: {LEFT_MAX} commands have not ended and cannot be killed"
            raise LocalManagerError(message, transient=True)
        async with self._slots:
            try:
                process = await asyncio.create_subprocess_exec(
                    *entry.prefix,
                    *command.argv,
                    stdin=asyncio.subprocess.PIPE,
                    stdout=asyncio.subprocess.PIPE,
                    stderr=asyncio.subprocess.PIPE,
                    env=entry.over(self._environment_of(command, account)),
                    # The account need not be able to read the agent's own folder.
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
                    self._unkilled[account].append(process)

    def _environment_of(self, command: Command, account: str) -> Mapping[str, str]:
        """Return the variables of a command. Programs of other accounts get nothing that is ours
        alone."""
        if not command.hands_on:
            return self._environment
        if account or self._programs is None:
            return environments.left_out(environments.LOCALE, self._environment)
        return self._programs(command.without)

    async def _answer(self, process: asyncio.subprocess.Process, command: Command) -> Answer:
        try:
            async with asyncio.timeout(self._limit_s):
                out, err = await _communicate(process, command.stdin)
        except TimeoutError as error:
            message = f"{command.argv[0]} gave no answer in {self._limit_s:g} s"
            raise LocalManagerError(message, transient=True) from error
        finally:
            if process.returncode is None:
                await end(process)
        if len(out) + len(err) > OUTPUT_MAX_BYTES:
            message = f"{command.argv[0]} wrote more than {OUTPUT_MAX_BYTES} bytes"
            raise LocalManagerError(message, transient=True)
        assert process.returncode is not None
        return Answer(
            status=process.returncode,
            out=out.decode(errors="replace"),
            err=err.decode(errors="replace"),
        )


async def _communicate(process: asyncio.subprocess.Process, text: str) -> tuple[bytes, bytes]:
    """Read both outputs until the command has ended; keep a little more than the limit."""
    assert process.stdin is not None
    assert process.stdout is not None
    assert process.stderr is not None
    async with asyncio.TaskGroup() as group:
        group.create_task(_feed(process.stdin, text))
        out = group.create_task(_read_all(process.stdout))
        err = group.create_task(_read_all(process.stderr))
        group.create_task(process.wait())
    return out.result(), err.result()


async def _feed(stdin: asyncio.StreamWriter, text: str) -> None:
    with suppress(ConnectionError):  # it closed its input: its answer says why
        stdin.write(text.encode())
        await stdin.drain()
    stdin.close()


async def _read_all(stream: asyncio.StreamReader) -> bytes:
    """Read a stream to its end; a command under an account's control may write without end."""
    received = bytearray()
    while part := await stream.read(PART_BYTES):
        if len(received) <= OUTPUT_MAX_BYTES:
            received += part
    return bytes(received)


def has_ended(process: asyncio.subprocess.Process) -> bool:
    """Test for the end of a process. A call, because the attribute changes by itself."""
    return process.returncode is not None


async def end(process: asyncio.subprocess.Process) -> None:
    """Kill a command and wait for it, at most END_S. One that became root on its way to an account
    (sudo) cannot be killed by us. The loop's child watcher reaps it some time."""
    with suppress(ProcessLookupError, PermissionError, TimeoutError):
        process.kill()
        async with asyncio.timeout(END_S):
            await process.wait()
