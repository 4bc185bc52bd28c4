"""Loop of `koala top` over changes of the grid, keys and the clock."""

from __future__ import annotations

import asyncio
import os
import signal
import sys
from collections import deque
from collections.abc import AsyncGenerator
from contextlib import aclosing, asynccontextmanager, suppress
from typing import TYPE_CHECKING, TypeVar

from koala.cli.jobs.logs import LogPrinter
from koala.cli.top.keys import key_mode, read_keys, waiting_bytes
from koala.cli.top.scene import TopScene, chosen_jobs, counts
from koala.cli.top.screen import screen_lines
from koala.cli.top.state import Order, Request, TopState, View
from koala.common.runtime import clock
from koala.errors import KoalaError, UnauthenticatedError
from koala.views.records.jobs import Explanation, JobDetails, JobSummary

if TYPE_CHECKING:
    from rich.live import Live

    from koala.client import AsyncClient
    from koala.client.grid_model import GridModel

A = TypeVar("A", JobDetails, Explanation)
REFRESH_S = 1.0
"""Greatest age of the screen, for the times in it."""
PAUSE_S = 0.1
"""Least time between two drawings."""
LOG_LINES = 1_000
LINE_CHARACTERS_MAX = 10_000
"""Characters that are kept of the end of a line, which a program may never complete."""


async def run(client: AsyncClient) -> None:
    """Show the grid until a key or a signal ends it."""
    from rich.console import Console
    from rich.live import Live

    from koala.client.grid_model import GridModel

    info = await client.hello()
    is_refused = False

    def refuse() -> None:
        nonlocal is_refused
        is_refused = True
        viewer.ended.set()

    model = GridModel(client, refused=refuse)
    with key_mode(sys.stdin.fileno()):
        console = Console(highlight=False)
        with Live(console=console, screen=True, auto_refresh=False) as live:
            viewer = Viewer(client, model, live, user=info.user)
            async with _running(model), _running(viewer):
                await viewer.ended.wait()
    if is_refused:
        raise UnauthenticatedError("the daemon does not accept these credentials any more")


@asynccontextmanager
async def _running(one: GridModel | Viewer) -> AsyncGenerator[None, None]:
    """Run a task meanwhile; its error ends the other."""
    async with asyncio.TaskGroup() as group:
        task = group.create_task(one.run())
        yield
        task.cancel()


class Viewer:
    """Draws the model, and does what keys ask."""

    def __init__(self, client: AsyncClient, model: GridModel, live: Live, *, user: str) -> None:
        self.ended = asyncio.Event()
        self._client = client
        self._model = model
        self._live = live
        self._user = user
        self._state = TopState()
        self._wake = asyncio.Event()
        self._group = asyncio.TaskGroup()
        self._reading: asyncio.Task[None] | None = None
        self._shown: list[JobSummary] = []
        self._counts: dict[str, int] = {}
        self._chosen_by: object = None
        self._job: JobDetails | None = None
        self._why: Explanation | None = None
        self._log: deque[str] = deque(maxlen=LOG_LINES)
        self._log_of = ""
        self._is_coloured = not os.environ.get("NO_COLOR")

    async def run(self) -> None:
        """Draw after changes, keys, and each second."""
        loop = asyncio.get_running_loop()
        descriptor = sys.stdin.fileno()
        loop.add_reader(descriptor, self._read, descriptor)
        for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
            loop.add_signal_handler(number, self.ended.set)
        loop.add_signal_handler(signal.SIGWINCH, self._wake.set)
        try:
            async with self._group as group:
                group.create_task(self._follow_changes())
                group.create_task(self._follow_job())
                while True:
                    self._draw()
                    await asyncio.sleep(PAUSE_S)
                    with suppress(TimeoutError):
                        async with asyncio.timeout(REFRESH_S):
                            await self._wake.wait()
                    self._wake.clear()
        finally:
            loop.remove_reader(descriptor)

    # --- what is shown ----------------------------------------------------------------------------

    def _draw(self) -> None:
        from rich.text import Text

        size = self._live.console.size
        now_at, model, state = clock.unix_now(), self._model, self._state
        self._choose(now_at)
        scene = TopScene(
            address=self._client.address,
            user=self._user,
            now_at=now_at,
            sites=list(model.sites.values()),
            jobs=self._shown,
            known=len(model.jobs),
            trouble=model.trouble,
            job=self._of_chosen(self._job),
            why=self._of_chosen(self._why),
            log=self._log,
            counts=self._counts,
        )
        lines = screen_lines(
            scene, state, width=size.width, height=size.height, coloured=self._is_coloured
        )
        text = Text("\n").join(Text.from_ansi(line) for line in lines)
        self._live.update(text, refresh=True)

    def _choose(self, now_at: float) -> None:
        """List the jobs, if they or the choice of the user changed."""
        state = self._state
        jobs = list(self._model.jobs.values())
        chosen_by = (self._model.cursor(None), state.words, state.order, state.has_ended)
        if chosen_by != self._chosen_by or state.order is Order.WAIT:
            self._chosen_by = chosen_by
            self._shown, self._counts = chosen_jobs(jobs, state, now_at), counts(jobs)
        if state.view is View.GRID and state.chosen not in {job.job for job in self._shown}:
            state.chosen = self._shown[0].job if self._shown else ""

    def _of_chosen(self, found: A | None) -> A | None:
        return found if found is not None and found.job == self._state.chosen else None

    async def _follow_changes(self) -> None:
        """Draw after each change of the model."""
        while True:
            async with aclosing(self._model.changes(self._model.cursor(None) or 0)) as changes:
                async for _ in changes:
                    self._wake.set()

    async def _follow_job(self) -> None:
        """Read the chosen job while a view shows it; the model asks once for each change."""
        while True:
            state = self._state
            try:
                if state.view is View.JOB and state.chosen:
                    self._job = await self._model.show(state.chosen)
                elif state.view is View.WHY and state.chosen:
                    self._why = await self._model.why(state.chosen)
            except KoalaError as error:
                state.message = str(error)
            self._wake.set()
            await asyncio.sleep(REFRESH_S / 2)

    def _follow_log(self) -> None:
        """Follow the logs of the chosen job while they are shown."""
        job = self._state.chosen if self._state.view is View.LOGS else ""
        if job == self._log_of:
            return
        if self._reading is not None:
            self._reading.cancel()
        self._log.clear()
        self._log_of = job
        self._reading = self._group.create_task(self._read_log(job)) if job else None

    async def _read_log(self, job: str) -> None:
        try:
            await LogPrinter(write=self._add_log).follow(self._client, job)
        except KoalaError as error:
            self._log.append(f"! {error}")
        self._wake.set()

    def _add_log(self, text: str) -> None:
        """Add lines; the logs of one process come in pieces of lines."""
        if self._log and not self._log[-1].endswith("\n"):
            text = self._log.pop()[-LINE_CHARACTERS_MAX:] + text
        self._log.extend(text.splitlines(keepends=True))
        self._wake.set()

    # --- keys -------------------------------------------------------------------------------------

    def _read(self, descriptor: int) -> None:
        data = waiting_bytes(descriptor)
        if not data:
            self.ended.set()
        jobs = [job.job for job in self._shown]
        for key in read_keys(data):
            chosen = self._model.jobs.get(self._state.chosen)
            is_over = chosen is not None and chosen.is_over
            match self._state.press(key, jobs, is_over=is_over):
                case Request.QUIT:
                    self.ended.set()
                case Request.CANCEL:
                    self._group.create_task(self._cancel(self._state.chosen))
                case Request.NOTHING:
                    pass
        self._follow_log()
        self._wake.set()

    async def _cancel(self, job: str) -> None:
        try:
            (result,) = await self._client.cancel([job])
            self._state.message = result.error or f"{job} {result.phase}"
        except KoalaError as error:
            self._state.message = str(error)
        self._wake.set()
