"""Run a grid on this machine around a body of work, and always clean up.

The cleanup covers the body's end or error, Ctrl-C, SIGTERM, a hangup of the terminal and the end of
a child process. Jobs are cancelled first, so that programs end as on a real grid. `Processes.stop`
ends everything else.
"""

from __future__ import annotations

import asyncio
import contextlib
import signal
from collections.abc import Awaitable, Callable, Iterable
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

from koala.common.runtime.child_lifetime import end_once
from koala.errors import KoalaError, first_error
from koala.local.grid_file import GridFolder
from koala.local.processes import Processes
from koala.local.web_page import start_page
from koala.views.records.phases import TERMINAL_PHASES

if TYPE_CHECKING:
    from koala.client import AsyncClient

T = TypeVar("T")

START_S = 60.0
"""Time limit for the daemon and the agents until all sites are registered."""
CANCEL_S = 10.0
POLL_S = 0.1


class GridError(KoalaError):
    """The grid did not start."""


class InterruptedRunError(KoalaError):
    """A signal ended the run; everything was stopped in order."""


def run_grid(
    folder: GridFolder,
    body: Callable[[AsyncClient], Awaitable[T]],
    *,
    web: Callable[[str], None] | None = None,
) -> T:
    """Start the grid, await `body` once all sites are registered, and stop everything.

    With `web` the web page is started, too; `web` gets its sign-in link, or why there is none.
    """
    processes = Processes(folder)

    async def with_web(client: AsyncClient) -> T:
        if web is None:
            return await body(client)
        async with asyncio.TaskGroup() as group:
            page = group.create_task(start_page(folder, processes, client.address, web))
            result = await body(client)
            page.cancel()
        return result

    try:
        return asyncio.run(_run_with_signals(folder, processes, with_web))
    except asyncio.CancelledError:
        raise InterruptedRunError("interrupted; everything was stopped") from None
    except BaseExceptionGroup as group:
        raise first_error(group) from None
    finally:
        processes.stop()


async def _run_with_signals(
    folder: GridFolder, processes: Processes, body: Callable[[AsyncClient], Awaitable[T]]
) -> T:
    before = _end_on_signals()
    try:
        return await _run_body(folder, processes, body)
    finally:
        if any(signal.getsignal(number) is not signal.SIG_IGN for number in before):
            for number, handler in before.items():
                signal.signal(number, handler)


async def _run_body(
    folder: GridFolder, processes: Processes, body: Callable[[AsyncClient], Awaitable[T]]
) -> T:
    from koala.client import AsyncClient

    try:
        async with asyncio.timeout(START_S):
            address = await _start_daemon(folder, processes)
            folder.write_agents(address)
            processes.start_agents()
            async with AsyncClient(address) as client:
                await _until_registered(client, processes, folder.sites)
    except TimeoutError:
        raise GridError(
            f"not all of {', '.join(folder.sites)} have registered within {START_S:.0f} s;"
            f" the logs are in {folder.log('daemon').parent}"
        ) from None
    async with AsyncClient(address) as client:
        try:
            return await _beside_children(processes, body(client))
        finally:
            with contextlib.suppress(KoalaError, TimeoutError):
                async with asyncio.timeout(CANCEL_S):
                    await _cancel_all(client)


def _end_on_signals() -> dict[int, Any]:
    """Cancel the main task at the first signal; return the previous signal handlers.

    The task's `finally` blocks clean up.
    """
    task = asyncio.current_task()
    assert task is not None
    loop = asyncio.get_running_loop()

    def end(_number: int) -> None:
        loop.call_soon_threadsafe(task.cancel)

    return end_once(end)


async def _beside_children(processes: Processes, body: Awaitable[T]) -> T:
    """Await the body and return its result; the end of a child process cancels it with an error."""

    async def poll() -> None:
        while True:
            processes.check()
            await asyncio.sleep(POLL_S)

    async with asyncio.TaskGroup() as group:
        watch = group.create_task(poll())
        result = await body
        watch.cancel()
    return result


async def _start_daemon(folder: GridFolder, processes: Processes) -> str:
    """Start the daemon and return its address. The endpoint file of an earlier run is ignored."""
    older = _file_version(folder.endpoint)
    processes.start_daemon()
    while _file_version(folder.endpoint) in (None, older):
        processes.check()
        await asyncio.sleep(POLL_S)
    return folder.endpoint.read_text(encoding="utf-8").strip()


def _file_version(path: Path) -> tuple[int, int] | None:
    """Return the inode and modification time of a file, None if there is none."""
    try:
        status = path.stat()
    except FileNotFoundError:
        return None
    return status.st_ino, status.st_mtime_ns


async def _until_registered(
    client: AsyncClient, processes: Processes, names: Iterable[str]
) -> None:
    """Wait until every site is registered; the caller sets a time limit."""
    while True:
        processes.check()
        connected = {s["site"] for s in await client.sites() if s["state"] != "disconnected"}
        if connected.issuperset(names):
            return
        await asyncio.sleep(POLL_S)


async def _cancel_all(client: AsyncClient) -> None:
    """Cancel all jobs that are not over, and wait until no site has claimed processors."""
    alive = [job["job"] for job in await client.list_jobs() if job["phase"] not in TERMINAL_PHASES]
    if alive:
        await client.cancel(alive)
    while True:
        if not any(site["claimed"] for site in await client.sites()):
            return
        await asyncio.sleep(POLL_S)
