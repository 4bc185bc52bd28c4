"""Daemons in this process for tests: started in a TaskGroup, stopped or killed at will."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

from koala.daemon.config import Config, parse_config
from koala.daemon.files.relay import serve
from koala.daemon.lifecycle import Daemon

ONE = "&(executable=/bin/true)(count=4)"
FAST = "claiming_step_min_s = 0.05\n"
"""Leases are as long as ever: where the machine stalls, no claim of a test is to end by them."""


def config_of(
    folder: Path, more: str = "", *, parameters: str = FAST, is_plain: bool = True, daemon: str = ""
) -> Config:
    """A configuration with any free port and its state below `folder`; `daemon` are more keys of
    the daemon's own table."""
    text = (
        f'[daemon]\nlisten = "127.0.0.1:0"\nstate_dir = "state"\nplain = {str(is_plain).lower()}\n'
        f"beat_s = 0.2\nsilence_s = 60.0\n{daemon}\n"
        f"[parameters]\n{parameters}\n{more}"
    )
    return parse_config(text, source="test.toml", folder=folder)


def a_daemon(config: Config, *, accept_loss: bool = False) -> Daemon:
    """A daemon whose relay runs in this process, since another interpreter takes longer to start
    than most tests take."""
    return Daemon(config, accept_loss=accept_loss, run_relay=serve)


@asynccontextmanager
async def running(config: Config) -> AsyncIterator[Daemon]:
    """A daemon that serves; it ends in order when the block is left."""
    daemon, stop = a_daemon(config), asyncio.Event()
    async with asyncio.TaskGroup() as group:
        serving = group.create_task(daemon.serve(stop))
        starting = group.create_task(daemon.started.wait())
        await asyncio.wait({serving, starting}, return_when=asyncio.FIRST_COMPLETED)
        starting.cancel()
        try:
            if daemon.started.is_set():
                yield daemon
        finally:
            stop.set()
            async with asyncio.timeout(90):
                await asyncio.wait({serving})
