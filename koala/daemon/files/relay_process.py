"""The relay as the daemon sees it: a child process that is supervised, and its address."""

from __future__ import annotations

import asyncio
import json
import os
import sys
from collections.abc import AsyncIterator, Callable, Coroutine
from contextlib import asynccontextmanager, suppress
from dataclasses import asdict
from typing import TypeAlias

from koala.common.runtime.structured_log import get_logger
from koala.daemon.files.relay_settings import RelaySettings
from koala.errors import UnreachableError

log = get_logger(__name__)

_START_S = 30.0
_END_S = 1.0
_RESTART_S = 0.2
_RESTART_S_MAX = 10.0


PROGRAM: tuple[str, ...] = (sys.executable, "-m", "koala.daemon.files.relay")
"""The command of the child process."""


class RelayProcess:
    """Relay as a child process of the daemon, restarted when it dies.

    Copies under way are cut, and resume when it is back.
    """

    def __init__(self, settings: RelaySettings, on_started: Callable[[int], None]) -> None:
        self.process: asyncio.subprocess.Process | None = None
        self._settings = settings
        self._on_started = on_started
        self._status = 0

    async def run(self) -> None:
        """Supervise the relay until cancelled.

        Raises UnreachableError when the relay exits by itself at its first start, as with an
        unusable folder. A relay that is killed or too slow is restarted.
        """
        has_started = False
        pause_s = _RESTART_S
        while True:
            try:
                async with self._child() as (process, port):
                    self._on_started(port)
                    has_started = True
                    pause_s = _RESTART_S
                    status = await process.wait()
                    log.error("relay.ended", status=status)
            except UnreachableError as error:
                if not has_started and self._status > 0:
                    raise
                log.warning("relay.not_started", reason=str(error))
            await asyncio.sleep(pause_s)
            pause_s = min(_RESTART_S_MAX, 2 * pause_s)

    @asynccontextmanager
    async def _child(self) -> AsyncIterator[tuple[asyncio.subprocess.Process, int]]:
        """Run a relay for the length of the block; yields its process and port."""
        try:
            process = await asyncio.create_subprocess_exec(
                *PROGRAM,
                stdin=asyncio.subprocess.PIPE,
                stdout=asyncio.subprocess.PIPE,
                env={**os.environ, "PYTHONPATH": os.pathsep.join(filter(None, sys.path))},
                start_new_session=True,  # Ctrl-C at the daemon must not end it first
            )
        except OSError as error:  # a temporary lack of processes, descriptors or memory
            reason = f"no process can be started for the relay: {error.strerror}"
            raise UnreachableError(reason) from error
        assert process.stdin is not None
        assert process.stdout is not None
        self.process = process
        try:
            process.stdin.write(json.dumps(asdict(self._settings)).encode() + b"\n")
            yield process, await _port(process.stdout)
        finally:
            self.process = None
            process.stdin.close()
            # The relay exits when its input closes. Wait for that, because a kill would hide its
            # own status; but kill it if this task is cancelled again.
            try:
                with suppress(TimeoutError):
                    async with asyncio.timeout(_END_S):
                        await process.wait()
            finally:
                with suppress(ProcessLookupError):
                    process.kill()
                self._status = await process.wait()


RunRelay: TypeAlias = Callable[[RelaySettings, Callable[[int], None]], Coroutine[None, None, None]]
"""Run a relay until cancelled, and report its port: `serve` here, `run_relay_process` beside."""


async def run_relay_process(settings: RelaySettings, on_started: Callable[[int], None]) -> None:
    """Run the relay as a child process until cancelled."""
    await RelayProcess(settings, on_started).run()


class Relay:
    """The relay of a daemon: `address` is as agents reach it."""

    def __init__(self, settings: RelaySettings, *, address: str, run: RunRelay) -> None:
        self.address = address
        self._settings = settings
        self._run = run

    async def run(self) -> None:
        """Run the relay until cancelled. Raises UnreachableError when it cannot start."""
        await self._run(self._settings, self._on_started)

    def _on_started(self, _port: int) -> None:
        log.info("relay.started", address=self.address)


async def _port(stdout: asyncio.StreamReader) -> int:
    try:
        async with asyncio.timeout(_START_S):
            reply = json.loads(await stdout.readline())
        if reason := reply.get("error"):
            raise UnreachableError(f"the relay did not start: {reason}")
        return int(reply["port"])
    except (TimeoutError, ValueError, KeyError, TypeError, ConnectionError) as error:
        message = "the relay did not start; what it wrote to standard error says why"
        raise UnreachableError(message) from error
