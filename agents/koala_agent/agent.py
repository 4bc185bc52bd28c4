"""The agent of one site: connects claims, files, local manager and link.

Each part knows its own work only; this module passes messages between them. It decides one thing:
when the daemon receives the site's figures. They are sent when they change, when an ask was
accepted, and when a claim changed, together with the highest ask number that they include.

Disk, batch system, connections, threads and clock are its `Surroundings`:
`assembly` makes those of a live site, `tests/swarm` simulated ones.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine, Sequence
from dataclasses import dataclass, field
from typing import Any, Protocol

from koala.common.identity.tls import IdentityFile
from koala.common.protocol import messages
from koala.common.protocol.messages import (
    FetchOrder,
    LogChunk,
    LogRequest,
    ServeOrder,
    SiteFigures,
    Watermark,
    Welcome,
)
from koala.common.protocol.names import ClaimId
from koala.common.runtime.disk_space import DiskSpace
from koala.common.runtime.structured_log import get_logger
from koala.errors import LocalManagerError
from koala_agent.claim_driver import ClaimDriver
from koala_agent.claim_surroundings import ClaimSurroundings
from koala_agent.claims.settings import LeaseTimes, Limits
from koala_agent.claims.states import Claim
from koala_agent.link.certificate_renewal import Renewal
from koala_agent.link.session import Session
from koala_agent.link.session_driver import Post, SessionDriver, Stream
from koala_agent.link.session_events import Event, Finish, Order
from koala_agent.link.session_status import SessionStatus
from koala_agent.lrm.local_manager import Idle, Listed
from koala_agent.placeholders.input_references import InputReferences
from koala_agent.placeholders.logs import LogSource, read_log
from koala_agent.starter_link.listener import Carry

LISTED_WAIT_S = 2.0
"""Longest wait of a registration for the first scan of the site's files."""

LOGS_MAX = 8
"""Logs that are read concurrently."""

log = get_logger()


class Files(Protocol):
    """File work of a site (`koala_agent.files`)."""

    async def run(self) -> None:
        """Serve until cancelled."""

    async def ready(self) -> None:
        """Wait until the port is open and earlier copies go on."""

    async def listed(self) -> None:
        """Wait until the site's files were scanned for the first time."""

    def inventory(self) -> Sequence[object]:
        """Return everything that was reported and still holds."""

    def fetch(self, order: FetchOrder) -> None:
        """Copy a part of a file to this site."""

    def remove_replica(self, name: str) -> None:
        """Delete a file that a user has added to the store."""

    def serve(self, order: ServeOrder) -> None:
        """Serve a part of a file to holders of the token, until cancelled."""

    def cancel(self, transfer: str) -> None:
        """End a transfer, at either end."""

    def release(self, transfer: str) -> None:
        """Delete the file of a copy that has no reader any more."""

    def retain(self, transfers: frozenset[str]) -> None:
        """End and delete all transfers but these."""


def no_logs(_claim: ClaimId, _stored: Claim | None) -> LogSource | None:
    """Return no log: for sites whose claims write none."""
    return None


@dataclass(frozen=True, slots=True, kw_only=True)
class Surroundings:
    """Everything around the parts of a site.

    `link_events` and `local_reports` are the inboxes of the link and of the local manager's
    reports: files and manager were built with their ends. `stream` makes the stream of a
    connection. With an `identity` its certificate is renewed. `close` is called at the end,
    `carry` takes connections to ports of programs, `helpers` run meanwhile, and `forward_starters`,
    which gets the port of the agent to which it forwards starters from elsewhere.
    """

    claims: ClaimSurroundings
    close: Callable[[], None]
    disk: DiskSpace
    local_reports: asyncio.Queue[Listed | Idle]
    files: Files
    session: Session
    link_events: asyncio.Queue[Event]
    stream: Callable[[int, Post], Stream]
    session_status: SessionStatus
    identity: IdentityFile | None = None
    log_source: Callable[[ClaimId, Claim | None], LogSource | None] = no_logs
    forward_starters: Callable[[int], Coroutine[Any, Any, None]] | None = None
    helpers: tuple[Callable[[], Coroutine[Any, Any, None]], ...] = ()
    carry: Carry | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class AgentSettings:
    """Settings of a site's agent. Starters check in at `listen` and `port` (0: any); folders of
    forgotten claims are kept for `keep_s`; `daemon` is its address."""

    name: str
    daemon: str
    limits: Limits = field(default_factory=Limits)
    listen: str = "127.0.0.1"
    port: int = 0
    keep_s: float = float("inf")


class Agent:
    """Agent of one site. Build it, then await `run` once."""

    def __init__(self, settings: AgentSettings, surroundings: Surroundings) -> None:
        self._settings = settings
        self._surroundings = surroundings
        self._disk = surroundings.disk
        self._store = surroundings.claims.store
        self._manager = surroundings.claims.manager
        self._files = surroundings.files
        self._session_status = surroundings.session_status
        self._figures_due = asyncio.Event()
        self._claims = ClaimDriver(
            surroundings=surroundings.claims,
            send_report=self._send_claim_report,
            changed=self._figures_due.set,
            limits=settings.limits,
            listen=settings.listen,
            port=settings.port,
            keep_s=settings.keep_s,
            carry=surroundings.carry,
        )
        self._input_references = InputReferences(self._claims.claims)
        self._link = SessionDriver(
            surroundings.session,
            surroundings.link_events,
            surroundings.stream,
            self,
            clock=surroundings.claims.clock,
        )
        self._renewal = None
        if surroundings.identity is not None:
            self._renewal = Renewal(
                surroundings.identity,
                settings.daemon,
                redial=self._link.redial,
                changed=self._figures_due.set,
            )
        self._tasks = asyncio.TaskGroup()
        self._idle: Idle | None = None
        self._is_due = False
        self._logs = asyncio.Semaphore(LOGS_MAX)

    async def run(self) -> Finish:
        """Serve until `close` or a final refusal; jobs run on."""
        start = self._tasks.create_task
        try:
            async with self._tasks:
                helpers = [
                    start(self._claims.run()),
                    start(self._disk.run(changed=self._figures_due.set)),
                    start(self._handle_local_reports()),
                ]
                # Before the local manager, because it receives its reports.
                await self._claims.opened()
                if self._surroundings.forward_starters is not None:
                    helpers.append(start(self._surroundings.forward_starters(self._claims.port)))
                start(self._manager.run())
                helpers.append(start(self._files.run()))
                await self._files.ready()
                await self._manager.opened()
                await self._query_idle()
                helpers.append(start(self._send_figures()))
                helpers += [start(helper()) for helper in self._surroundings.helpers]
                if self._renewal is not None:
                    helpers.append(start(self._renewal.run()))
                finish = await self._link.run()
                await self._manager.close()
                for helper in helpers:
                    helper.cancel()
            return finish
        finally:
            self._surroundings.close()

    def close(self, reason: str) -> None:
        """Send the daemon a goodbye and make `run` return."""
        self._link.close(reason)

    async def attempted(self) -> str:
        """Wait for the first attempt to register; return why it failed, empty on success."""
        await self._link.attempted.wait()
        return self._link.trouble

    async def trouble_changed(self) -> str:
        """Wait for the next change, and return why the site is not registered; empty when it is."""
        await self._link.changed.wait()
        self._link.changed.clear()
        return self._link.trouble

    @property
    def figures(self) -> Idle | None:
        """Last answer of the local manager; None before the first."""
        return self._idle

    @property
    def problem(self) -> str:
        """Reasons why the site needs its administrator; empty when it does not."""
        return "" if self._idle is None else "; ".join(filter(None, self._troubles(self._idle)))

    # What the session driver calls (`SessionHandler`) --------------------------------------------

    def startable(self) -> int:
        """Return the number of processors that a claim could have now."""
        return 0 if self._idle is None or self._disk.is_low else self._idle.startable

    async def prepare(self) -> None:
        """Wait for the local manager's listing, and briefly for the scan of the files."""
        await self._claims.prepared()
        try:
            async with asyncio.timeout(LISTED_WAIT_S):
                await self._files.listed()
        except TimeoutError:
            log.info("files.scan_unfinished")

    def inventory(self) -> tuple[object, ...]:
        """Return all claims, stored values, files and copies."""
        return (*self._claims.inventory(), *self._files.inventory())

    def store_epoch(self, epoch: int) -> None:
        """Store the epoch; durable when it returns."""
        self._store.set_epoch(epoch)

    def keep_watermark(self, mark: Watermark) -> None:
        """Store the watermark with the next commit, or after MARK_S when there is none."""
        self._store.stage_watermark(mark)

    def begin_session(self, welcome: Welcome, age_s: tuple[float, float]) -> None:
        """Begin a session: pass the leases to starters and the relay to copies."""
        self._input_references.begin_session()
        self._session_status.begin_session(welcome.relay)
        self._claims.set_daemon_time(welcome.now, age_s)
        self._claims.set_leases(
            LeaseTimes(
                hold_lease_s=welcome.hold_lease_s,
                run_lease_s=welcome.run_lease_s,
                kill_s=welcome.kill_s,
            )
        )

    def apply(self, order: Order) -> None:
        """Dispatch an order to the part that carries it out."""
        match order.body:
            case messages.Hold() as hold:
                self._input_references.add(hold)
                self._is_due = True
                self._claims.order(hold, shortage=self._shortage())
                self._figures_due.set()
            case messages.Acknowledge() as acknowledge:
                for transfer in self._input_references.drop(acknowledge.claim):
                    self._files.release(transfer)
                self._claims.order(acknowledge)
            case (
                messages.TryPaths()
                | messages.Arm()
                | messages.Release()
                | messages.Resize()
                | messages.Pace()
                | messages.Stop()
                | messages.Pong()
                | messages.KvAnswer() as body
            ):
                self._claims.order(body)
            case FetchOrder() as fetch:
                self._files.fetch(fetch)
            case ServeOrder() as serve:
                self._files.serve(serve)
            case messages.RemoveFile(file=file):
                self._files.remove_replica(file)
            case messages.CancelTransfer(transfer=transfer):
                self._files.cancel(transfer)
            case LogRequest() as request:
                self._tasks.create_task(self._answer_log(request))
            case body:
                raise AssertionError(f"an order without a handler: {body!r}")

    def stop_others(self, *, claims: frozenset[str], transfers: frozenset[str]) -> None:
        """Stop everything that is not named. Files that a named claim reads are kept; a copy whose
        claim may follow later is named as a transfer."""
        self._session_status.complete()
        self._claims.stop_unnamed(claims)
        self._files.retain(transfers | self._input_references.read_by(claims))

    # What the parts say -------------------------------------------------------------------------

    def _send_claim_report(self, message: messages.ToDaemon) -> None:
        self._link.send_report(message)
        if isinstance(message, messages.Report):
            self._figures_due.set()

    async def _handle_local_reports(self) -> None:
        """Handle the reports of the local manager in order."""
        while True:
            report = await self._surroundings.local_reports.get()
            if isinstance(report, Idle):
                self._idle = report
                self._figures_due.set()
            else:
                self._claims.handle_listed(report)

    async def _send_figures(self) -> None:
        """Send the site's figures to the daemon whenever there is a reason to."""
        while True:
            await self._figures_due.wait()
            self._figures_due.clear()
            is_due, self._is_due = self._is_due, False
            # First the number, then the figures: they may include more, never less.
            through = self._claims.asked_through
            idle = await self._query_idle()
            if idle is None:
                # Sent with the next change; until then the daemon uses the last figures.
                self._is_due = self._is_due or is_due
                continue
            is_low = self._disk.is_low
            figures = SiteFigures(
                idle=0 if is_low else idle.startable,
                through=through,
                processors=idle.processors,
                local_processors=idle.local_processors,
                queued_jobs=idle.queued_jobs,
                trouble="; ".join(filter(None, self._troubles(idle))),
                idle_gpus=0 if is_low else idle.idle_gpus,
                resources=idle.resources,
                waits=(*self._claims.untaken(), *idle.waits),
                foreign_queued=idle.foreign_queued,
                gate=self._manager.gate,
                gate_tried=idle.gate_tried,
                outlook=idle.outlook,
                why_idle="" if is_low else idle.why,
                commands="" if idle.commands is None else idle.commands.text,
                asleep=idle.asleep,
                wake_s=idle.wake_s,
                holes=() if is_low else idle.holes,
                taken=idle.taken,
                lists_reservations=idle.reservations is not None,
                reservations=() if is_low else idle.reservations or (),
            )
            self._link.send_figures(figures, is_due=is_due)

    async def _query_idle(self) -> Idle | None:
        """Query the site's processors; None when the local manager does not answer."""
        try:
            self._idle = await self._manager.idle()
        except LocalManagerError as error:
            log.warning("site.figures_unknown", reason=str(error))
            return None
        return self._idle

    async def _answer_log(self, request: LogRequest) -> None:
        async with self._logs:
            claim = ClaimId(request.claim)
            source = self._surroundings.log_source(claim, self._claims.claims.get(claim))
            if source is None:
                chunk = LogChunk(
                    request=request.request,
                    offset=request.offset,
                    is_over=True,
                    error=f"{self._settings.name} has no logs of {request.claim} (any more)",
                )
            else:
                chunk = await asyncio.to_thread(read_log, request, source)
            self._link.send_report(chunk)

    def _shortage(self) -> str:
        """Return why no new claim can be accepted now; empty when it can."""
        if shortage := self._disk.shortage:
            return f"the agent's disk is nearly full: {shortage} for new claims"
        return ""

    def _troubles(self, idle: Idle) -> tuple[str, ...]:
        """Return the problems for the site's administrator; empty strings mean none."""
        renewal = "" if self._renewal is None else self._renewal.trouble
        return self._shortage(), renewal, self._claims.trouble, idle.trouble
