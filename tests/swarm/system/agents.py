"""Simulated agent: the real session, claim table, store, port of starters and codec, assembled as
in koala_agent.site, without a loop, sockets or files.

Its disk, the batch system and the starters survive it.
"""

from __future__ import annotations

import asyncio
import json
from collections import deque
from collections.abc import Callable
from pathlib import Path
from typing import Any

from koala.core.model.grid import SiteFacts
from koala.core.model.values import Instant, Seconds, SiteName
from koala.errors import JournalError, LocalManagerError, SpecError
from koala.protocol import messages
from koala.protocol.codec import mark_of
from koala.protocol.messages import FetchOrder, FileFound, ServeOrder
from koala.protocol.names import ClaimId
from koala.wire.v1 import link_pb2 as pb
from koala_agent.claim_driver import WATERMARK_S
from koala_agent.claims.committed import CommittedClaims
from koala_agent.claims.events import (
    Adopted,
    BatchEnded,
    BatchFound,
    BatchUnlisted,
    Collect,
    Collected,
    Event,
    Forget,
    HoldOrdered,
    LeasesSet,
    Output,
    SendToDaemon,
    SendToStarter,
    StoreClaim,
    Submit,
    SubmitFailed,
    WantedComplete,
    Withdraw,
    Woken,
)
from koala_agent.claims.settings import Leases, Limits
from koala_agent.claims.states import Claim
from koala_agent.claims.store import Store
from koala_agent.claims.table import ClaimTable
from koala_agent.link import codec, session
from koala_agent.lrm.port import EndCause, Ended, Listed, RequestRefusedError
from koala_agent.placeholders import submission as placeholders
from koala_agent.placeholders.input_references import InputReferences
from koala_agent.placeholders.starter_listener import StarterListener
from koala_agent.placeholders.submission import LaunchSettings
from tests.swarm.system.batch import BatchSystem, Job, Runs
from tests.swarm.system.copies import RIGHT, Copies, Sources, Spool
from tests.swarm.system.disk import Disk
from tests.swarm.system.machines import CrashedError, Machine, Process, Timer
from tests.swarm.system.network import End, Pipe
from tests.swarm.system.starters import Folder
from tests.swarm.system.table import require_follows, require_stored

PORT = 1
RESTART_S = 1.0
"""Delay after which a supervisor restarts a process that ended by itself."""


class Transport(asyncio.Transport):
    """One accepted connection of a starter."""

    def __init__(self, end: End[bytes], lost: Callable[[], None]) -> None:
        super().__init__()
        self._end = end
        self._lost = lost
        self._is_closing = False

    def write(self, data: bytes | bytearray | memoryview[Any]) -> None:
        self._end.send(bytes(data))

    def close(self) -> None:
        if not self._is_closing:
            self._is_closing = True
            self._end.close()
            self._lost()

    def abort(self) -> None:
        if not self._is_closing:
            self._is_closing = True
            self._end.reset()
            self._lost()

    def is_closing(self) -> bool:
        return self._is_closing

    def get_extra_info(self, name: str, default: Any = None) -> Any:
        return ("127.0.0.1", PORT) if name == "peername" else default

    def get_write_buffer_size(self) -> int:
        return 0


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
    ) -> None:
        super().__init__(sources.network.engine, sources.network.plan, machine)
        self.site = site
        self.ends: list[End[Any]] = []
        self.down_until: Instant = 0.0
        self.folders: dict[str, Folder] = {}
        self.bound: dict[ClaimId, str] = {}  # to the nonce that was adopted first
        self.gone: dict[ClaimId, None] = {}  # told
        self.well: dict[str, Instant] = {}  # since when it is written that they ended well
        self._looked_at: dict[ClaimId, Instant] = {}  # whether anything is left of a claim
        self.spool: Spool = {}
        self.files: dict[str, int] = {}  # replicas of the site, and their sizes
        self.disk = Disk(
            point=self.point,
            errs=lambda: self.plan.strikes("disk_error", self.engine.now),
        )
        self.disk.now = lambda: self.engine.now
        told = messages.Facts(
            processors=facts.processors,
            grace_s=facts.grace_s,
            starts_after_stop=facts.starts_after_stop,
            address="127.0.0.1",
            serves=f"{site}:1",
            may_kill_local=facts.may_kill_local,
            mips=facts.mips,
            slots=facts.slots or 0,
        )
        self._described = codec.SiteDescription(version="simulated", site=site, facts=told)
        self._batch = batch
        self._limits = limits
        self._timing = timing
        self._sources = sources
        self._begin = begin
        self._dial = dial
        self._place = LaunchSettings(root=Path("/site"), site=site)

    # --- lives ---

    def start(self) -> None:
        """Begin a life from the stored state."""
        self.begin_life()
        self.run(self._start)

    def _start(self) -> None:
        try:
            self._store = store = Store(Path("/site"), connection=self.disk.connection)
            restored = store.claims()
        except JournalError as error:
            raise CrashedError from error  # its supervisor starts it again
        now = self.machine.boot()
        self._table = ClaimTable(
            limits=self._limits,
            leases=store.leases,
            now=now,
            restored=restored,
            forgotten=store.forgotten(),
        )
        self._leases = store.leases
        self._restored = tuple(claim.id for claim in restored)
        self._committed = CommittedClaims(self._table.claims.values(), number=lambda _claim: "")
        self._starters = StarterListener(
            tell=self.tell,
            secret=self._table.secret,
            later=self.after,
            now=self.machine.boot,
        )
        self._session = session.Session(
            epoch=store.epoch,
            mark=store.mark,
            timing=self._timing,
            random=self.plan.stream(f"dial {self.site}"),
            now=now,
        )
        self._copies = Copies(self, self.site, self.spool, self._sources, self._send_to_daemon)
        self._inbox: deque[Event] = deque()
        self._is_storing = self._turns_soon = False
        self._is_prepared = False
        self._waits_for_inventory: int | None = None
        self._turns: dict[ClaimId, deque[Callable[[], None]]] = {}
        self._readers = InputReferences(self._committed.stored)
        self._is_asked = self._is_ending = False
        self._is_telling_figures = False
        self._secrets = 0
        self._line: End[Any] | None = None
        self._line_number = 0
        self._table_timer = Timer(self, self._turn)
        self._link_timer = Timer(self, lambda: self._on_link(session.Woken()))
        self._batch.news = lambda ended: self.run(lambda: self._batch_ended(ended))
        self._batch.changed = lambda: self.run(self._figures_due)
        self._reconcile()
        self._on_link(session.Woken())
        self.after(WATERMARK_S, self._store_watermark)

    def _store_watermark(self) -> None:
        if self._store.has_new_watermark and not self._is_storing:
            self._durably(lambda: self._store.commit(()))
        self.after(WATERMARK_S, self._store_watermark)

    def crash(self) -> None:
        """Kill the agent (SIGKILL)."""
        if not self.is_up:
            return
        self.is_up = False
        self.life += 1
        self.disk.crashed()
        self._batch.news = self._batch.changed = None
        for end in self.ends:
            end.reset()
        self.ends.clear()
        self.engine.after(RESTART_S, self._revive)

    def finish(self) -> None:
        """Finish on TERM: a goodbye to the daemon; starters and batch jobs live on
        (koala_agent.link.stream)."""
        self.run(self._finish)

    def _finish(self) -> None:
        self._is_ending = True
        self._on_link(session.Closed("the agent stops"))

    def _revive(self) -> None:
        if self.is_up:
            return
        if self.engine.now < self.down_until:
            self.engine.at(self.down_until, self._revive)
        else:
            self.start()

    # --- the claim table's driver (koala_agent.claim_driver.Claims) ---

    def tell(self, event: Event) -> None:
        """Handle an event of the claim table."""
        self._inbox.append(event)
        if not self._is_storing and not self._turns_soon:
            self._turns_soon = True
            self.soon(self._turn)

    def _turn(self) -> None:
        self._turns_soon = False
        if self._is_storing:
            return
        now = self.machine.boot()
        outputs: list[Output] = []
        while self._inbox:
            outputs += self._table.handle(self._inbox.popleft(), now)
        wake_at = self._table.wake_at
        if wake_at is not None and wake_at <= now:
            outputs += self._table.handle(Woken(), now)
        writes = [output for output in outputs if isinstance(output, StoreClaim | Forget)]
        if not writes:
            self._let_out(outputs)
            return
        self._is_storing = True
        store_s = self.plan.store_s(self.engine.now)
        self.after(store_s, lambda: self._store_and_let_out(writes, outputs))

    def _store_and_let_out(self, writes: list[StoreClaim | Forget], outputs: list[Output]) -> None:
        try:
            self._store.commit(writes)
        except JournalError as error:
            raise CrashedError from error
        self._is_storing = False
        self._let_out(outputs)
        if self._inbox:
            self._turn()

    def _let_out(self, outputs: list[Output]) -> None:
        for output in outputs:
            self._carry_out(output)
        if not self._is_storing:
            self._table_timer.set(self._table.wake_at)

    def _carry_out(self, output: Output) -> None:
        match output:
            case StoreClaim(claim=written):
                require_follows(self._committed.stored.get(written.id), written)
                self._committed.apply(output)
                self._note_end(written)
            case Forget():
                self._committed.apply(output)
            case SendToDaemon(message=message):
                if isinstance(message, messages.Report):
                    require_stored(self._committed.stored.get(message.claim), message)
                    message = self._committed.with_batch_job(message)
                    self._require_gone(message)
                    self._figures_due()
                self._send_to_daemon(message)
            case SendToStarter(claim=claim_id, nonce=nonce, message=to_starter):
                if isinstance(to_starter, Adopted):
                    first = self.bound.setdefault(claim_id, nonce)
                    assert first == nonce, f"promise 3: {nonce} is adopted after {first}"
                self._starters.send(claim_id, nonce, to_starter)
            case Submit(claim=claim):
                self._in_turn(claim.id, lambda: self._submit(claim))
            case Withdraw(claim=claim_id):
                self._in_turn(claim_id, lambda: self._withdraw(claim_id))
            case Collect(claim=claim):
                collect_s = self.plan.collect_s(self.engine.now)
                self.after(collect_s, lambda: self.tell(Collected(claim=claim.id)))

    def _note_end(self, written: Claim) -> None:
        end = getattr(written.state, "end", None)
        if end is not None and end.is_well:
            self.well.setdefault(written.id, self.engine.now)

    def _require_gone(self, report: messages.Report) -> None:
        """Check promise 5: a claim that is reported gone is gone."""
        end = report.end
        is_ours = end is not None and end.kind is not messages.EndKind.UNKNOWN
        if is_ours and report.claim not in self.gone:
            # Only when it is told first, and only what was there when the agent looked: what an
            # earlier life submitted may be on its way; its starter is dismissed when it comes.
            self.gone[report.claim] = None
            looked_at = self._looked_at.get(report.claim, self.engine.now)
            is_alive = self._batch.lives(report.claim, since=looked_at)
            assert not is_alive, f"promise 5: {report.claim} is told gone and its batch job lives"

    # --- calls into the batch system ---

    def _in_turn(self, claim: ClaimId, call: Callable[[], None]) -> None:
        """Run calls about one claim in order."""
        waiting = self._turns.setdefault(claim, deque())
        waiting.append(call)
        if len(waiting) == 1:
            call()

    def _next_turn(self, claim: ClaimId) -> None:
        waiting = self._turns[claim]
        waiting.popleft()
        if waiting:
            waiting[0]()
        else:
            del self._turns[claim]

    def _submit(self, claim: Claim) -> None:
        hold = claim.hold
        spec = placeholders.specification(
            claim,
            self._place,
            program=hold.program,
            port=PORT,
            leases=self._leases,
            input_path="",
        )
        spec = json.loads(json.dumps(spec))
        wall_time_s = hold.program.wall_time_s or float("inf")
        job = Job(
            claim=claim.id,
            processors=hold.processors,
            time_limit_s=hold.hold_s + wall_time_s + self._leases.kill_s,
            begin=lambda job: self._begin(claim.id, spec, job),
        )
        life = self.life

        def answered(error: LocalManagerError | None) -> None:
            if life == self.life:
                self.run(lambda: self._submitted(claim.id, error))

        self.point()
        self._batch.submit(job, answered, may_kill=hold.may_kill)
        self.point()

    def _submitted(self, claim: ClaimId, error: LocalManagerError | None) -> None:
        if error is not None:
            failed = SubmitFailed(
                claim=claim,
                reason=str(error),
                is_transient=error.transient,
                is_refused=isinstance(error, RequestRefusedError),
            )
            self.tell(failed)
        self._committed.note_submitted(claim)
        self._next_turn(claim)
        self._figures_due()

    def _withdraw(self, claim: ClaimId) -> None:
        life = self.life

        def listed(found: tuple[Listed, ...] | LocalManagerError) -> None:
            self._looked_at[claim] = self.engine.now
            if life == self.life:
                self.run(lambda: self._withdrawn(claim, found))

        def answered(error: LocalManagerError | None) -> None:
            if life != self.life:
                return
            if error is not None:
                self.run(lambda: self._next_turn(claim))  # the table orders it again
            else:
                self._batch.listing(listed)

        self.point()
        self._batch.withdraw(claim, answered)
        self.point()

    def _withdrawn(self, claim: ClaimId, found: tuple[Listed, ...] | LocalManagerError) -> None:
        self._next_turn(claim)
        if isinstance(found, LocalManagerError):
            return
        own = [entry for entry in found if entry.claim == claim]
        if not own:
            self._batch_ended(Ended(claim=claim, cause=EndCause.WITHDRAWN))
        elif isinstance(own[-1], Ended):
            self._batch_ended(own[-1])

    def _batch_ended(self, entry: Ended) -> None:
        claim = ClaimId(entry.claim)
        folder = self.folders.get(claim)
        self.tell(
            BatchEnded(
                claim=claim,
                cause=entry.cause,
                exit_status=entry.exit_status,
                reason=entry.reason,
                record=folder.record() if folder is not None else None,
            )
        )

    def _reconcile(self) -> None:
        """Reconcile the stored claims with the batch system, once after the start."""
        life = self.life

        def listed(found: tuple[Listed, ...] | LocalManagerError) -> None:
            if life != self.life:
                return
            self._looked_at.update(dict.fromkeys(self._restored, self.engine.now))
            if isinstance(found, LocalManagerError):
                self.after(2.0, self._reconcile)
            else:
                self.run(lambda: self._compare({ClaimId(entry.claim): entry for entry in found}))

        self._batch.listing(listed)

    def _compare(self, listed: dict[ClaimId, Listed]) -> None:
        for claim in self._restored:
            entry = listed.get(claim)
            if entry is None:
                folder = self.folders.get(claim)
                record = folder.record() if folder is not None else None
                self.tell(BatchUnlisted(claim=claim, record=record))
            elif isinstance(entry, Ended):
                self._batch_ended(entry)
        for claim, entry in listed.items():
            if not isinstance(entry, Ended):
                self.tell(BatchFound(claim=claim))
        self._is_prepared = True
        if self._waits_for_inventory is not None:
            self._send_inventory(self._waits_for_inventory)

    # --- starters' port ---

    def accept(self, end: End[bytes]) -> None:
        """Accept the connection of a starter."""
        connection = self._starters.accept()
        transport = Transport(end, lambda: self.soon(lambda: connection.connection_lost(None)))
        life = self.life
        end.take = lambda data: self._in_life(life, lambda: connection.data_received(data))
        end.lost = lambda: self._in_life(life, lambda: connection.connection_lost(None))
        self._keep(end)
        connection.connection_made(transport)

    def _in_life(self, life: int, call: Callable[[], None]) -> None:
        if life == self.life:
            self.run(call)

    def _keep(self, end: End[Any]) -> None:
        """Register a connection, to break when this life ends."""
        self.ends = [other for other in self.ends if other.is_believed]
        self.ends.append(end)

    # --- the link (koala_agent.link.stream.Link) ---

    def _send_to_daemon(self, report: object) -> None:
        self._on_link(session.Reported(report))

    def _on_link(self, event: session.Event) -> None:
        for output in self._session.handle(event, self.machine.boot()):
            self._link_output(output)
        self._link_timer.set(self._session.wake_at)

    def _link_output(self, output: session.Output) -> None:
        match output:
            case session.Dial(connection):
                self._connect(connection)
            case session.TakeInventory(connection):
                if self._is_prepared:
                    self.soon(lambda: self._send_inventory(connection))
                else:
                    self._waits_for_inventory = connection
            case session.Send(message):
                self.point()
                if self._line is not None:
                    self._line.send(codec.encode(message, self._described))
            case session.HangUp(is_orderly=is_orderly):
                self._hang_up(is_orderly=is_orderly)
            case session.Finish() if self._is_ending:
                raise CrashedError
            case session.Finish(reason=reason):
                raise AssertionError(f"{self.site}: the link is over for good: {reason}")
            case _:
                self._instruct(output)

    def _instruct(
        self,
        output: session.StoreEpoch
        | session.KeepWatermark
        | session.BeginSession
        | session.Apply
        | session.StopOthers,
    ) -> None:
        match output:
            case session.StoreEpoch(epoch):
                self._durably(lambda: self._store.set_epoch(epoch))
            case session.KeepWatermark(mark):
                self._store.note_watermark(mark)
            case session.BeginSession(welcome):
                self._on_welcome(welcome)
            case session.Apply(order):
                self._apply(order.body)
            case session.StopOthers(claims=claims, transfers=transfers):
                self._stop_others(claims, transfers)

    def _durably(self, write: Callable[[], None]) -> None:
        try:
            write()
        except JournalError as error:
            raise CrashedError from error

    def _connect(self, connection: int) -> None:
        life = self.life

        def reached(pipe: Pipe[Any] | None) -> None:
            if life != self.life or self._session.connection != connection:
                if pipe is not None:
                    pipe.ends[0].reset()
                return
            if pipe is None:
                cut = session.Cut(connection=connection, reason="nobody answers")
                self.run(lambda: self._on_link(cut))
                return
            self._open(pipe.ends[0], connection)

        self._dial(self, reached)

    def _open(self, end: End[Any], connection: int) -> None:
        self._line, self._line_number = end, connection
        self._keep(end)
        life = self.life
        end.take = lambda message: self._in_life(life, lambda: self._receive(connection, message))
        cut = session.Cut(connection=connection, reason="the connection is gone")
        end.lost = lambda: self._in_life(life, lambda: self._on_link(cut))
        idle = self._batch.figures.startable
        name = f"{self.site}-{self.life}-{connection}"
        dialled = session.Dialled(connection=connection, session=name, idle=idle)
        self.run(lambda: self._on_link(dialled))

    def _receive(self, connection: int, message: pb.ToAgent) -> None:
        try:
            decoded = codec.decode(message)
        except SpecError as error:
            raise AssertionError(f"{self.site} does not understand the daemon: {error}") from error
        if decoded is not None:
            mark = mark_of(message)
            self._on_link(session.Received(connection=connection, message=decoded, mark=mark))

    def _hang_up(self, *, is_orderly: bool) -> None:
        end, self._line = self._line, None
        if end is None:
            return
        if is_orderly:
            end.close()
        else:
            end.reset()

    def _send_inventory(self, connection: int) -> None:
        self._waits_for_inventory = None
        found = (_found(file, size_bytes) for file, size_bytes in self.files.items())
        reports = (*self._committed.inventory(), *self._copies.inventory(), *found)
        self._on_link(session.InventoryTaken(connection=connection, reports=reports))

    # --- orders (koala_agent.site.Site) ---

    def _on_welcome(self, welcome: messages.Welcome) -> None:
        self._readers.begin_session()
        leases = Leases(
            hold_lease_s=welcome.hold_lease_s,
            run_lease_s=welcome.run_lease_s,
            kill_s=welcome.kill_s,
        )
        self._durably(lambda: self._store.set_leases(leases))
        self._leases = leases
        self.tell(LeasesSet(leases=leases))

    def _apply(self, body: object) -> None:
        match body:
            case messages.Hold() as hold:
                self._readers.add(hold)
                self._is_asked = True
                self._committed.note_ask(hold, is_known=hold.claim in self._table.claims)
                self._secrets += 1
                secret = f"{self.site}.{self.life}.{self._secrets}"
                self.tell(HoldOrdered(hold=hold, secret=secret))
                self._figures_due()
            case messages.Acknowledge() as acknowledge:
                for transfer in self._readers.drop(acknowledge.claim):
                    self._copies.remove(transfer)
                self.tell(acknowledge)
            case (
                messages.TryPaths()
                | messages.Arm()
                | messages.Release()
                | messages.Pace()
                | messages.Stop()
                | messages.Pong()
                | messages.KvAnswer() as order
            ):
                self.tell(order)
            case FetchOrder() as fetch:
                self._copies.fetch(fetch)
            case ServeOrder() as serve:
                self._copies.serve(serve)
            case messages.CancelTransfer(transfer=transfer):
                self._copies.cancel(transfer)
            case _:
                raise AssertionError(f"an order nobody takes: {body!r}")

    def _stop_others(self, claims: frozenset[str], transfers: frozenset[str]) -> None:
        self.tell(WantedComplete(claims=claims))
        finished = {name for name, part in self.spool.items() if part.took_s is not None}
        self._copies.retain(transfers | self._readers.read_by(claims) | finished)

    def serves(self, transfer: str) -> bool | None:
        """Return the offer of a copy now; None when no agent is up."""
        return transfer in self._copies.served if self.is_up else None

    def add_file(self, file: str, size_bytes: int) -> None:
        """Add a file of the site's own."""
        self.files[file] = size_bytes
        if self.is_up:
            self.run(lambda: self._send_to_daemon(_found(file, size_bytes)))

    # --- figures ---

    def _figures_due(self) -> None:
        if not self._is_telling_figures:
            self._is_telling_figures = True
            self.after(0.005, self._report_figures)

    def _report_figures(self) -> None:
        self._is_telling_figures = False
        is_asked, self._is_asked = self._is_asked, False
        through = self._committed.asked_through
        figures = self._batch.figures
        told = messages.SiteFigures(
            idle=figures.startable,
            through=through,
            processors=figures.processors,
            local_processors=figures.local_processors,
            queued_jobs=figures.queued_jobs,
        )
        self._on_link(session.SiteChanged(told, is_owed=is_asked))

    # --- what is left at the end ---

    @property
    def claims(self) -> dict[ClaimId, Claim]:
        """Return the stored claims."""
        return self._committed.stored


def _found(file: str, size_bytes: int) -> FileFound:
    return FileFound(file=file, size_bytes=size_bytes, checksum=RIGHT)


def limits_of(facts: SiteFacts, *, again_s: Seconds, linger_s: Seconds) -> Limits:
    """Return the limits of a site."""
    return Limits(grace_s=facts.grace_s, again_s=again_s, linger_s=linger_s)
