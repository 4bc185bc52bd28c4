"""The link: drives the session machine between the site and a stream to the daemon.

An error in a handler ends `run`, and with it the agent. Instants are those of the given clock,
seconds.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from itertools import groupby
from typing import Protocol, TypeAlias

from koala.common.protocol.messages import SiteFigures, Watermark, Welcome
from koala.common.runtime.driver import Driver
from koala.common.runtime.structured_log import get_logger
from koala_agent.link import session_events as ev
from koala_agent.link.session import Session

BATCH_MAX = 1_000

log = get_logger()


class SessionHandler(Protocol):
    """The site, as the session calls it. No call but `prepare` may wait."""

    def startable(self) -> int:
        """Return the number of processors that a claim could have now."""

    async def prepare(self) -> None:
        """Make `inventory` complete, for instance by asking the local manager."""

    def inventory(self) -> tuple[object, ...]:
        """Return reports on everything the site has."""

    def store_epoch(self, epoch: int) -> None:
        """Store the epoch; durable when it returns."""

    def keep_watermark(self, mark: Watermark) -> None:
        """Store the watermark together with the next commit."""

    def begin_session(self, welcome: Welcome, age_s: tuple[float, float]) -> None:
        """Begin an accepted session; an earlier one is over."""

    def apply(self, order: ev.Order) -> None:
        """Begin to carry out an order of the daemon."""

    def stop_others(self, *, claims: frozenset[str], transfers: frozenset[str]) -> None:
        """Begin to end everything that is not named."""


Post: TypeAlias = Callable[[ev.Event], None]


class Stream(Protocol):
    """One connection to the daemon: it posts Dialled, then Received."""

    def send(self, batch: Sequence[object]) -> bool:
        """Queue a batch of messages; end the connection and return False when the queue is full."""

    def hang_up(self, *, is_orderly: bool) -> None:
        """End the connection; when orderly, after queued messages are written."""

    async def run(self, startable: Callable[[], int]) -> str:
        """Connect and serve until the connection is lost or closed; return why."""


class SessionDriver:
    """Driver of the session: passes events of streams and agent to it, and carries out its
    outputs. `stream` makes the stream of a connection."""

    def __init__(
        self,
        session: Session,
        inbox: asyncio.Queue[ev.Event],
        stream: Callable[[int, Post], Stream],
        handler: SessionHandler,
        *,
        clock: Callable[[], float],
    ) -> None:
        self.attempted = asyncio.Event()
        """Set when the first attempt to register is over, successful or not."""
        self.changed = asyncio.Event()
        """Set when `trouble` has changed; whoever waits for it clears it."""
        self._session = session
        self._inbox = inbox
        self._stream = stream
        self._handler = handler
        self._driver = Driver(
            session,
            inbox,
            woken=ev.Woken(),
            carry_out=self._carry_out_all,
            clock=clock,
            batch_max=BATCH_MAX,
        )
        self._streams: dict[int, Stream] = {}
        self._tasks = asyncio.TaskGroup()
        self._inventory_tasks: set[asyncio.Task[None]] = set()
        self._is_over = asyncio.Event()
        self._finish: ev.Finish | None = None
        self._cut_reason = ""

    async def run(self) -> ev.Finish:
        """Serve until the session is over for good; return why."""
        async with self._tasks:
            driving = self._tasks.create_task(self._driver.run())
            await self._is_over.wait()
            for task in (driving, *self._inventory_tasks):
                task.cancel()
        assert self._finish is not None
        return self._finish

    def send_report(self, report: object) -> None:
        """Send a report now, or with the next inventory."""
        self._inbox.put_nowait(ev.Reported(report))

    def send_figures(self, figures: SiteFigures, *, is_due: bool = False) -> None:
        """Pass on the site's figures, perhaps changed."""
        self._inbox.put_nowait(ev.SiteChanged(figures, is_due=is_due))

    def redial(self, reason: str) -> None:
        """Close the connection in order, and dial again."""
        log.info("link.redialled", reason=reason)
        for stream in self._streams.values():
            stream.hang_up(is_orderly=True)

    def close(self, reason: str) -> None:
        """Send a goodbye and make `run` return."""
        self._inbox.put_nowait(ev.Closed(reason))

    @property
    def is_live(self) -> bool:
        """True when the daemon has named all that it wants in the present session."""
        return self._session.is_live

    @property
    def trouble(self) -> str:
        """Reason for the end of the last session, empty after a welcome."""
        return self._cut_reason

    # Outputs of the machine -----------------------------------------------------------------------

    async def _carry_out_all(self, outputs: Sequence[ev.Output]) -> None:
        for is_said, together in groupby(outputs, lambda output: isinstance(output, ev.Send)):
            if is_said:
                self._send([output.message for output in together if isinstance(output, ev.Send)])
            else:
                for output in together:
                    self._carry_out(output)

    def _carry_out(self, output: ev.Output) -> None:  # noqa: C901 - a line a kind
        match output:
            case ev.Dial(connection):
                stream = self._streams[connection] = self._stream(
                    connection, self._inbox.put_nowait
                )
                self._tasks.create_task(self._serve(connection, stream))
            case ev.TakeInventory(connection):
                taking = self._tasks.create_task(self._take_inventory(connection))
                self._inventory_tasks.add(taking)
                taking.add_done_callback(self._inventory_tasks.discard)
            case ev.HangUp():
                self._hang_up(output)
            case ev.Finish():
                self._finish = output
                self._is_over.set()
            case ev.KeepWatermark(mark):
                self._handler.keep_watermark(mark)
            case ev.StoreEpoch(epoch):
                self._handler.store_epoch(epoch)
            case ev.BeginSession(welcome, age_s):
                log.info("link.welcomed", epoch=welcome.epoch)
                self._set_trouble("")
                self._handler.begin_session(welcome, age_s)
                self.attempted.set()
            case ev.Apply(order):
                self._handler.apply(order)
            case ev.StopOthers(claims=claims, transfers=transfers):
                log.info("link.completed", claims=len(claims), transfers=len(transfers))
                self._handler.stop_others(claims=claims, transfers=transfers)
            case ev.Send():
                raise AssertionError("_carry_out_all sends messages")

    def _hang_up(self, output: ev.HangUp) -> None:
        log.info("link.closed", reason=output.reason)
        if stream := self._streams.get(output.connection):
            stream.hang_up(is_orderly=output.is_orderly)

    def _send(self, batch: Sequence[object]) -> None:
        connection = self._session.connection
        # A stream that has just ended has an event of its own in the inbox.
        stream = self._streams.get(connection)
        if stream is not None and not stream.send(batch):
            self._inbox.put_nowait(ev.Cut(connection=connection, reason="the daemon does not read"))

    def _set_trouble(self, reason: str) -> None:
        self._cut_reason = reason
        self.changed.set()

    async def _take_inventory(self, connection: int) -> None:
        await self._handler.prepare()
        # No await from here on: later changes are reported after the inventory.
        reports = self._handler.inventory()
        self._inbox.put_nowait(ev.InventoryTaken(connection=connection, reports=reports))

    async def _serve(self, connection: int, stream: Stream) -> None:
        """Serve one connection from dialling to its end, which is an event, never an error."""
        reason = await stream.run(self._handler.startable)
        del self._streams[connection]
        if reason != self._cut_reason:  # one line for a daemon that is away all night
            log.info("link.cut", reason=reason)
        self._set_trouble(reason)
        self._inbox.put_nowait(ev.Cut(connection=connection, reason=reason))
        if self._finish is None:
            self.attempted.set()
