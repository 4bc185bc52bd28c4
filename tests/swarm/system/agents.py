"""Simulated agent: the real agent (koala_agent.agent), on surroundings in simulated time.

Its disk, the batch system and the starters survive it.
"""

from __future__ import annotations

import asyncio
import math
from collections.abc import Callable, Coroutine, Sequence
from pathlib import Path
from typing import Any

from koala.common.protocol import messages
from koala.common.protocol.names import ClaimId
from koala.core.model.grid import SiteFacts
from koala.core.model.values import Instant, Seconds, SiteName
from koala.errors import JournalError
from koala_agent.agent import Agent as SiteAgent
from koala_agent.agent import AgentSettings, Surroundings
from koala_agent.claim_surroundings import ClaimSurroundings
from koala_agent.claims import states
from koala_agent.claims.events import Forget, StoreClaim
from koala_agent.claims.settings import Limits
from koala_agent.claims.states import Claim
from koala_agent.claims.store import Store
from koala_agent.link import codec, session, session_events
from koala_agent.link.session_status import SessionStatus
from koala_agent.lrm.local_manager import Idle, Listed
from koala_agent.placeholders.launch_settings import LaunchSettings
from koala_agent.starter_link.mailbox import Mailbox
from tests.swarm.system import disk
from tests.swarm.system.agent_surroundings import (
    LinkEvents,
    RoomyDisk,
    SimulatedFiles,
    SimulatedFolders,
    SimulatedManager,
    SimulatedStream,
    Transport,
    file_found,
    pass_time,
)
from tests.swarm.system.batch import BatchSystem, Job, Runs
from tests.swarm.system.copies import Sources, Spool
from tests.swarm.system.loop import SimulatedLoop
from tests.swarm.system.machines import CrashedError, Machine, Process
from tests.swarm.system.mailboxes import AgentsMailbox, SharedFolder
from tests.swarm.system.network import End, Pipe
from tests.swarm.system.starters import Folder
from tests.swarm.system.table import require_follows, require_stored

MAILBOX = "box"
MUTE = "mute"
"""Gate of a site that tells no expected starts."""
RESTART_S = 1.0
"""Delay after which a supervisor restarts a process that ended by itself."""


class Agent(Process):
    """One site's agent and its lives."""

    crash_kind = "crash_agent"

    def __init__(
        self,
        machine: Machine,
        batch: BatchSystem,
        *,
        site: SiteName,
        facts: SiteFacts,
        limits: Limits,
        timing: session.Timing,
        sources: Sources,
        begin: Callable[[str, dict[str, Any], Job], Runs],
        dial: Callable[[Agent, Callable[[Pipe[Any] | None], None]], None],
        shared: SharedFolder | None = None,
    ) -> None:
        super().__init__(sources.network.engine, sources.network.plan, machine)
        self.site = site
        self.down_until: Instant = 0.0
        self.folders: dict[str, Folder] = {}
        self.claims: dict[ClaimId, Claim] = {}  # as they are stored
        self.bound: dict[ClaimId, str] = {}  # to the nonce that was adopted first
        self.gone: dict[ClaimId, None] = {}  # told
        self.well: dict[str, Instant] = {}  # since when it is written that they ended well
        self.looked_at: dict[ClaimId, Instant] = {}  # whether anything is left of a claim
        self.spool: Spool = {}
        self.files: dict[str, int] = {}  # replicas of the site, and their sizes
        self.disk = disk.Disk(
            point=self.point,
            errs=lambda: self.plan.strikes("disk_error", self.engine.now),
        )
        self.disk.now = lambda: self.engine.now
        self.batch = batch
        self.sources = sources
        self.gate = facts.gate
        self.books = facts.books
        self.tells_starts = facts.gate != MUTE
        self.begin = begin
        self.dial = dial
        self.shared = shared
        self.launch = LaunchSettings(
            root=Path("/site"), site=site, mailbox="" if shared is None else MAILBOX
        )
        told = messages.Facts(
            processors=facts.processors,
            grace_s=facts.grace_s,
            starts_after_stop=facts.starts_after_stop,
            address="127.0.0.1",
            serves=f"{site}:1",
            may_kill_local=facts.may_kill_local,
            mips=facts.mips,
            slots=facts.slots or 0,
            gate=facts.gate,
            books=facts.books,
            tickets_max=facts.tickets_max or 0,
            held_share_max=facts.held_share_max or 0.0,
            forwards=facts.forwards,
        )
        self.description = codec.SiteDescription(version="simulated", site=site, facts=told)
        self._settings = AgentSettings(name=site, daemon="daemon", limits=limits)
        self._timing = timing
        self._ends: list[End[Any]] = []
        self._copies: SimulatedFiles | None = None
        self._agent: SiteAgent | None = None
        self._loop: SimulatedLoop | None = None
        self._link_events: asyncio.Queue[session_events.Event] | None = None

    # --- lives ---

    def start(self) -> None:
        """Begin a life from the stored state."""
        self.begin_life()
        self._loop = loop = SimulatedLoop(self)
        self._live_on(loop, self._live())

    def _live_on(self, loop: SimulatedLoop, life: Coroutine[Any, Any, None]) -> None:
        def over(task: asyncio.Task[None]) -> None:
            loop.failure = loop.failure or _first(task.exception()) or CrashedError()

        loop.create_task(life).add_done_callback(over)

    async def _live(self) -> None:
        self._agent = SiteAgent(self._settings, self._surroundings())
        await self._agent.run()

    def _surroundings(self) -> Surroundings:
        store = Store(Path("/site"), connection=self.disk.connection)
        self.claims = {claim.id: claim for claim in store.claims()}
        link_events = self._link_events = LinkEvents(self)
        local_reports: asyncio.Queue[Listed | Idle] = asyncio.Queue()
        manager = SimulatedManager(self, restored=tuple(self.claims))
        self.batch.on_ended = lambda ended: self.run(lambda: local_reports.put_nowait(ended))
        self.batch.changed = lambda: self.run(lambda: local_reports.put_nowait(self._idle()))
        machine = session.Session(
            epoch=store.epoch,
            mark=store.watermark,
            timing=self._timing,
            random=self.plan.stream(f"dial {self.site}"),
            now=self.machine.boot(),
        )
        files = self._copies = SimulatedFiles(
            self, lambda report: link_events.put_nowait(session_events.Reported(report))
        )
        return Surroundings(
            close=lambda: None,
            disk=RoomyDisk(),
            local_reports=local_reports,
            files=files,
            claims=ClaimSurroundings(
                store=store,
                manager=manager,
                folders=SimulatedFolders(self),
                clock=self.machine.boot,
                calendar=self.machine.wall,
                commit=lambda writes: self._commit(store, writes),
                collect=self._collect,
                mailbox=None if self.shared is None else self._mailbox(self.shared),
            ),
            session=machine,
            link_events=link_events,
            stream=lambda connection, post: SimulatedStream(self, connection, post),
            session_status=SessionStatus(machine),
        )

    def _mailbox(self, shared: SharedFolder) -> Mailbox:
        transport = AgentsMailbox(shared, wait=pass_time, adopted=self.require_bound)
        return Mailbox(transport, MAILBOX, now=self.machine.boot)

    def crash(self) -> None:
        """Kill the agent (SIGKILL)."""
        if not self.is_up:
            return
        self.is_up = False
        self.life += 1
        self.disk.crashed()
        self.batch.on_ended = self.batch.changed = None
        for end in self._ends:
            end.reset()
        self._ends.clear()
        self.close()
        self.engine.after(RESTART_S, self._revive)

    def close(self) -> None:
        """Dispose of the tasks of this life."""
        self.is_up = False
        loop, self._loop, self._agent, self._copies = self._loop, None, None, None
        if loop is not None:
            loop.dispose()

    def finish(self) -> None:
        """Finish on TERM: a goodbye to the daemon; starters and batch jobs live on."""
        self.run(self._finish)

    def _finish(self) -> None:
        if self._agent is None:
            raise CrashedError
        self._agent.close("the agent stops")

    def _revive(self) -> None:
        if self.is_up:
            return
        if self.engine.now < self.down_until:
            self.engine.at(self.down_until, self._revive)
        else:
            self.start()

    # --- surroundings ---

    async def _commit(self, store: Store, writes: Sequence[StoreClaim | Forget]) -> None:
        if writes:
            await pass_time(self.plan.store_s(self.engine.now))
        store.commit(writes)
        for write in writes:
            if isinstance(write, Forget):
                del self.claims[write.claim]
            else:
                require_follows(self.claims.get(write.claim.id), write.claim)
                self.claims[write.claim.id] = write.claim
                self._note_end(write.claim)

    def _note_end(self, written: Claim) -> None:
        end = getattr(written.state, "end", None)
        if end is not None and end.succeeded:
            self.well.setdefault(written.id, self.engine.now)

    async def _collect(self, _claim: Claim, _folder: Path) -> str:
        await pass_time(self.plan.collect_s(self.engine.now))
        return ""

    def keep(self, end: End[Any]) -> None:
        """Register a connection, to break when this life ends."""
        self._ends = [other for other in self._ends if other.is_believed]
        self._ends.append(end)

    def of_this_life(self, call: Callable[..., object]) -> Callable[..., None]:
        """Wrap a call from outside: it is made on this life's loop, or not at all."""
        life, loop = self.life, self._loop
        assert loop is not None

        def guard(*args: Any) -> None:
            if life == self.life:
                self.run(lambda: _make(loop, call, args))

        return guard

    def accept(self, end: End[bytes]) -> None:
        """Accept the connection of a starter."""
        loop = self._loop
        if loop is None or loop.factory is None:
            end.reset()  # it does not listen yet
            return
        connection = loop.factory()
        transport = Transport(self, end, lambda: connection.connection_lost(None))
        end.take = self.of_this_life(transport.receive(connection.data_received))
        end.lost = self.of_this_life(lambda: connection.connection_lost(None))
        self.keep(end)
        loop.call_soon(connection.connection_made, transport)

    def serves(self, transfer: str) -> bool | None:
        """Return the offer of a copy now; None when no agent is up."""
        return None if self._copies is None else transfer in self._copies.served

    def add_file(self, file: str, size_bytes: int) -> None:
        """Add a file of the site's own."""
        self.files[file] = size_bytes
        events = self._link_events
        if self.is_up and events is not None:
            found = session_events.Reported(file_found(file, size_bytes))
            self.run(lambda: events.put_nowait(found))

    # --- the oracle ---

    def require_may_tell(self, report: messages.Report) -> None:
        """Check promises 4 and 5: what is told is stored, and a claim told gone is gone."""
        require_stored(self.claims.get(report.claim), report)
        end = report.end
        is_ours = end is not None and end.kind is not messages.EndKind.UNKNOWN
        if is_ours and report.claim not in self.gone:
            # Only when it is told first, and only what was there when the agent looked: what an
            # earlier life submitted may be on its way; its starter is dismissed when it comes.
            self.gone[report.claim] = None
            looked_at = self.looked_at.get(report.claim, self.engine.now)
            is_alive = self.batch.lives(report.claim, since=looked_at)
            assert not is_alive, f"promise 5: {report.claim} is told gone and its batch job lives"

    def require_bound(self, claim: ClaimId, nonce: str) -> None:
        """Check promise 3: only the first starter of a claim is adopted."""
        first = self.bound.setdefault(claim, nonce)
        assert first == nonce, f"promise 3: {nonce} is adopted after {first}"

    def _idle(self) -> Idle:
        figures = self.batch.figures
        return Idle(
            processors=figures.processors,
            idle=figures.startable,
            startable=figures.startable,
            queued_jobs=figures.queued_jobs,
            local_processors=figures.local_processors,
            foreign_queued=figures.local_queued,
            waits=self._waits(),
        )

    def _waits(self) -> tuple[messages.Wait, ...]:
        """Return the expected starts of tickets, in whole minutes as of a real site."""
        tickets = [
            one.id
            for one in self.claims.values()
            if one.hold.waits and isinstance(one.state, states.Asked)
        ]
        if not tickets:
            return ()
        starts = self.batch.starts(tickets) if self.tells_starts else {}
        return tuple(
            messages.Wait(
                claim=claim,
                start_in_s=None
                if starts.get(claim, math.inf) == math.inf
                else float(round(starts[claim] - self.engine.now)),
                source="queue",
            )
            for claim in tickets
        )

    async def idle(self) -> Idle:
        """Return the processors now; that takes a moment."""
        await pass_time(0.005)
        return self._idle()


def _make(loop: SimulatedLoop, call: Callable[..., object], args: tuple[Any, ...]) -> None:
    loop.call_soon(call, *args)


def _first(error: BaseException | None) -> BaseException | None:
    """Return what ended a life; a supervisor starts an agent again whose disk failed."""
    while isinstance(error, BaseExceptionGroup):
        error = error.exceptions[0]
    return CrashedError() if isinstance(error, JournalError) else error


def limits_of(facts: SiteFacts, *, again_s: Seconds, linger_s: Seconds) -> Limits:
    """Return the limits of a site."""
    share = facts.held_share_max
    return Limits(
        grace_s=facts.grace_s,
        again_s=again_s,
        linger_s=linger_s,
        tickets_max=facts.tickets_max,
        held_max=None if share is None else int(share * facts.processors),
    )
