"""The driver of the claim table: feeds it events, stores its changes, carries out its outputs.

One task, the event loop of this driver, owns the table. It drains the inbox as one batch, handles
it, stores all changes in one transaction (group commit), and only then carries out the other
outputs. Calls into the local manager run beside it, one at a time for each claim, and report back
with events. Reports to the daemon rest on stored state only: `inventory` reads the committed
claims, so a crash can undo nothing that was reported.
"""

from __future__ import annotations

import asyncio
import math
import secrets
import stat
import threading
from collections import deque
from collections.abc import Awaitable, Callable
from concurrent.futures import ThreadPoolExecutor
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import structlog

from koala.errors import LocalManagerError, SpecError
from koala.files.confined_folder import UnusableFileError, kept_in
from koala.protocol.messages import (
    Acknowledge,
    Arm,
    Hold,
    KvAnswer,
    KvPut,
    Pace,
    Pong,
    Release,
    Report,
    Stop,
    ToDaemon,
    TryPaths,
)
from koala.protocol.names import ClaimId, is_claim_id
from koala_agent.claims.committed import CommittedClaims
from koala_agent.claims.events import (
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
from koala_agent.claims.folder import StarterRecord, folder_name
from koala_agent.claims.settings import Leases, Limits
from koala_agent.claims.states import Claim, Collecting, Gone
from koala_agent.claims.table import ClaimTable
from koala_agent.lrm.port import (
    EndCause,
    Ended,
    Idle,
    Listed,
    LocalManager,
    Placeholder,
    Queued,
    RequestRefusedError,
    Running,
)
from koala_agent.placeholders import submission as placeholders
from koala_agent.placeholders.allowed_programs import NotAllowedError
from koala_agent.placeholders.cleanup import remove_all
from koala_agent.placeholders.file_sync import FileSyncServer, Message
from koala_agent.placeholders.result_files import output_paths
from koala_agent.placeholders.starter_listener import StarterListener
from koala_agent.placeholders.submission import LaunchSettings
from koala_agent.starter.program import STATE_FOLDER

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

    from koala_agent.claims.store import Store
    from koala_agent.placeholders.logs import LogSource

BATCH_MAX = 1_000
CALLS_MAX = 32
"""Calls into the local manager at one time."""
COLLECTS_MAX = 32
"""Concurrent calls of `collect`: files of a program may take long, and must not delay other ends.
"""
LISTING_S = 5.0
"""How long an inventory waits for the first listing: well below the silence that ends a session."""
RECONCILE_AGAIN_S = 2.0
RECORD_TRIES, RECORD_AGAIN_S = 60, 1.0
"""Tries to read a starter's record when our own disk or process fails, and the pause between them.
"""
SWEEP_S = 60.0
WATERMARK_S = 10.0
"""Longest time before a new watermark is stored on its own."""

log = structlog.get_logger()

Order = Hold | TryPaths | Arm | Release | Pace | Stop | Acknowledge | Pong | KvAnswer


def no_input(_hold: Hold) -> str:
    """Return no path: an input resolver for sites whose jobs read no file."""
    return ""


async def check_outputs(claim: Claim, folder: Path, *, may_leave: bool = False) -> str:
    """Check that the named outputs exist, without copying them; return what is missing."""
    problems = []
    for path in output_paths(claim.hold.program).values():
        try:
            kept, below = kept_in(folder, path, may_leave=may_leave)
            kept.find(below)
        except (SpecError, UnusableFileError) as error:
            problems.append(str(error))
    return "; ".join(problems)


@dataclass(frozen=True, slots=True, kw_only=True)
class Ports:
    """Callbacks of the assembly: the receiver of reports, the input paths, the collection of
    outputs.

    `input_path` returns the path at which the claim's program will read its input file, empty when
    it has none; the file may come later. `collect` returns what is missing, empty when everything
    was brought back; it is never cancelled, but the table waits no longer than its limit.
    `room_bytes` is the disk space that programs' files may use.
    """

    tell: Callable[[ToDaemon], None]
    clock: Callable[[], float]
    unix_clock: Callable[[], float]
    input_path: Callable[[Hold], str] = no_input
    collect: Callable[[Claim, Path], Awaitable[str]] = check_outputs
    room_bytes: Callable[[], float] = lambda: math.inf


class ClaimDriver:
    """Driver of a site's claims. Build it, then await `run` in a task until the agent ends."""

    def __init__(
        self,
        *,
        store: Store,
        manager: LocalManager,
        place: LaunchSettings,
        ports: Ports,
        limits: Limits,
        listen: str = "127.0.0.1",
        port: int = 0,
        keep_s: float = math.inf,
    ) -> None:
        restored = store.claims()
        self.port = 0
        self._store = store
        self._manager = manager
        self._launch = place
        self._ports = ports
        self._listen = listen
        self._port = port
        self._keep_s = keep_s
        self._leases = store.leases
        self._table = ClaimTable(
            limits=limits,
            leases=self._leases,
            now=ports.clock(),
            restored=restored,
            forgotten=store.forgotten(),
        )
        self._restored = tuple(claim.id for claim in restored)
        self._committed = CommittedClaims(self._table.claims.values(), number=manager.number)
        self._file_sync = FileSyncServer(
            claim=self._committed.stored.get,
            folder=place.folder,
            input_path=ports.input_path,
            room_bytes=ports.room_bytes,
        )
        self._listener = StarterListener(
            tell=self._enqueue,
            secret=self._table.secret,
            ask=None if place.shared else self._handle_file_request,
            machines=self._machines,
        )
        self._inbox: deque[Event] = deque()
        self._arrived = asyncio.Event()
        self._listening = asyncio.Event()
        self._reconciled = asyncio.Event()
        self._calls = asyncio.Semaphore(CALLS_MAX)
        self._collects = asyncio.Semaphore(COLLECTS_MAX)
        self._call_locks: dict[ClaimId, asyncio.Lock] = {}
        self._withdrawing: set[ClaimId] = set()
        self._command: tuple[str, ...] = ()
        self._installing = threading.Lock()

    # What the assembly calls ---------------------------------------------------------------------

    async def run(self) -> None:
        """Serve until cancelled; batch jobs and starters go on. Raises OSError when no port can be
        opened, JournalError when nothing can be stored."""
        self._command = placeholders.install_starter(self._launch)
        self.port = await self._listener.listen(
            self._listen, self._port or self._store.port, is_fixed=self._port > 0
        )
        self._store.set_port(self.port)
        try:
            # One thread: transactions keep the order of the batches.
            with ThreadPoolExecutor(1, thread_name_prefix="store") as executor:
                executor.submit(
                    self._store.claims
                ).result()  # the thread must exist before threads run out
                async with asyncio.TaskGroup() as group:
                    self._group = group
                    self._listening.set()
                    group.create_task(self._reconcile())
                    group.create_task(self._sweep())
                    group.create_task(self._store_watermarks(executor))
                    await self._run_batches(executor)
        finally:
            self._listener.close()

    async def opened(self) -> None:
        """Wait until starters can check in."""
        await self._listening.wait()

    async def prepared(self) -> None:
        """Wait until the inventory includes the local manager's listing, or until LISTING_S has
        passed.

        After a time-out the stored state is reported, and differences follow when they are found.
        Programs must not lose their leases because a batch system is silent.
        """
        try:
            async with asyncio.timeout(LISTING_S):
                await self._reconciled.wait()
        except TimeoutError:
            log.warning("claims.told_unreconciled")

    def order(self, order: Order, *, shortage: str = "") -> None:
        """Queue an order of the daemon. `shortage` is why a new claim is refused now."""
        if isinstance(order, Hold):
            self._committed.note_ask(order, is_known=order.claim in self._table.claims)
            hold = HoldOrdered(hold=order, secret=secrets.token_hex(16), shortage=shortage)
            self._enqueue(hold)
        else:
            self._enqueue(order)

    def set_leases(self, leases: Leases) -> None:
        """Store the leases of a new session and hand them to the table."""
        self._store.set_leases(leases)
        self._leases = leases
        self._enqueue(LeasesSet(leases=leases))

    def stop_unnamed(self, claims: frozenset[str]) -> None:
        """Stop all claims that the daemon did not name."""
        self._enqueue(WantedComplete(claims=claims))

    def handle_listed(self, entry: Listed | Idle) -> None:
        """Handle a report of the local manager (its `Tell`); idle figures are ignored."""
        match entry:
            case Ended(claim=claim) if self._listening.is_set() and is_claim_id(claim):
                self._group.create_task(self._batch_ended(entry))
            case Ended() | Queued() | Running() | Idle():
                pass  # an end that was told too early is found by `_reconcile`

    def inventory(self) -> list[Report | KvPut]:
        """Return all stored claims as reports."""
        return self._committed.inventory()

    @property
    def asked_through(self) -> int:
        """See `CommittedClaims`."""
        return self._committed.asked_through

    @property
    def claims(self) -> dict[ClaimId, Claim]:
        """The claims as they are stored."""
        return self._committed.stored

    def folder(self, claim: ClaimId) -> Path:
        """The working directory of the claim's program."""
        return self._launch.folder(claim)

    def log_source(self, claim: ClaimId) -> LogSource | None:
        """Locate the claim's output, also after the claim was forgotten; None when its folder is
        gone."""
        known = self._committed.stored.get(claim)
        is_ended = known is None or isinstance(known.state, Gone | Collecting)
        return placeholders.log_source(claim, self._launch, is_ended=is_ended)

    # The pump ------------------------------------------------------------------------------------

    def _enqueue(self, event: Event) -> None:
        self._inbox.append(event)
        self._arrived.set()

    async def _run_batches(self, executor: ThreadPoolExecutor) -> None:
        loop = asyncio.get_running_loop()
        while True:
            await self._wait()
            outputs = self._handle_batch()
            writes = [output for output in outputs if isinstance(output, StoreClaim | Forget)]
            if writes:
                await loop.run_in_executor(executor, self._store.commit, writes)
            for output in outputs:
                self._carry_out(output)

    async def _store_watermarks(self, executor: ThreadPoolExecutor) -> None:
        """Store watermarks that arrived while nothing else was written: one write in a while for
        all."""
        loop = asyncio.get_running_loop()
        while True:
            await asyncio.sleep(WATERMARK_S)
            if self._store.has_new_watermark:
                await loop.run_in_executor(executor, self._store.commit, ())

    async def _wait(self) -> None:
        """Wait for an event or the table's timer."""
        self._arrived.clear()
        if self._inbox:
            return
        wake_at = self._table.wake_at
        wait_s = None if wake_at is None else max(0.0, wake_at - self._ports.clock())
        try:
            async with asyncio.timeout(wait_s):
                await self._arrived.wait()
        except TimeoutError:
            pass

    def _handle_batch(self) -> list[Output]:
        outputs: list[Output] = []
        for _ in range(min(len(self._inbox), BATCH_MAX)):
            outputs += self._table.handle(self._inbox.popleft(), self._ports.clock())
        wake_at = self._table.wake_at
        if wake_at is not None and wake_at <= self._ports.clock():
            outputs += self._table.handle(Woken(), self._ports.clock())
        return outputs

    def _carry_out(self, output: Output) -> None:
        match output:
            case StoreClaim():
                self._committed.apply(output)
            case Forget(claim=claim_id):
                self._committed.apply(output)
                self._call_locks.pop(claim_id, None)
            case SendToDaemon(message=message):
                self._send_report(message)
            case SendToStarter(claim=claim_id, nonce=nonce, message=to_starter):
                self._listener.send(claim_id, nonce, to_starter)
            case Submit(claim=claim):
                self._group.create_task(self._submit(claim))
            case Withdraw(claim=claim_id) if claim_id not in self._withdrawing:
                self._withdrawing.add(claim_id)
                self._group.create_task(self._withdraw(claim_id))
            case Withdraw():
                pass  # it waits for the batch system, and is ordered again if it fails
            case Collect(claim=claim):
                self._group.create_task(self._collect(claim))

    def _send_report(self, message: ToDaemon) -> None:
        if isinstance(message, Report):
            message = self._committed.with_batch_job(message)
            log.info("claim.reported", claim=message.claim, state=message.state.value)
        self._ports.tell(message)

    # Calls ---------------------------------------------------------------------------------------

    @asynccontextmanager
    async def _call_slot(self, claim: ClaimId) -> AsyncIterator[None]:
        """Serialize the calls about one claim: a withdrawal never overtakes its submission."""
        async with self._call_locks.setdefault(claim, asyncio.Lock()), self._calls:
            yield

    async def _submit(self, claim: Claim) -> None:
        is_wish = False
        async with self._call_slot(claim.id):
            try:
                placeholder = await asyncio.to_thread(
                    self._prepare, claim, self._ports.input_path(claim.hold)
                )
                is_wish = placeholder.has_wishes()
                await self._manager.submit(placeholder)
            except LocalManagerError as error:
                is_refused = is_wish or isinstance(error, RequestRefusedError)
                self._submit_failed(
                    claim.id, str(error), is_transient=error.transient, is_refused=is_refused
                )
            except NotAllowedError as error:
                self._submit_failed(claim.id, str(error), is_transient=False, is_refused=True)
            except OSError as error:
                self._submit_failed(claim.id, f"work folder: {error}", is_transient=False)
            self._committed.note_submitted(claim.id)

    def _prepare(self, claim: Claim, input_path: str) -> Placeholder:
        """Make the claim's folder and batch job, and reinstall the starter if somebody removed it.
        Raises OSError, NotAllowedError."""
        with self._installing:
            if not placeholders.is_installed(self._launch, self._command):
                log.warning("starter.installed_anew", folder=str(self._launch.root))
                self._command = placeholders.install_starter(self._launch)
        return placeholders.prepare(
            claim,
            self._launch,
            command=self._command,
            port=self.port,
            leases=self._leases,
            input_path=input_path,
        )

    def _submit_failed(
        self, claim: ClaimId, reason: str, *, is_transient: bool, is_refused: bool = False
    ) -> None:
        log.warning("claim.submission_failed", claim=claim, reason=reason)
        failed = SubmitFailed(
            claim=claim, reason=reason, is_transient=is_transient, is_refused=is_refused
        )
        self._enqueue(failed)

    async def _withdraw(self, claim: ClaimId) -> None:
        """Order the end of a batch job, then check whether anything of it is left."""
        async with self._call_slot(claim):
            try:
                await self._manager.withdraw(claim)
                listed = await self._manager.listing()
            except LocalManagerError as error:
                # The table orders it again.
                log.warning("claim.withdrawal_failed", claim=claim, reason=str(error))
                return
            finally:
                self._withdrawing.discard(claim)
        found = [entry for entry in listed if entry.claim == claim]
        if not found:
            nothing = Ended(claim=claim, cause=EndCause.WITHDRAWN)
            await self._batch_ended(nothing)
        elif isinstance(found[-1], Ended):
            await self._batch_ended(found[-1])

    async def _batch_ended(self, entry: Ended) -> None:
        claim = ClaimId(entry.claim)
        record = await self._record_of(claim)
        self._enqueue(
            BatchEnded(
                claim=claim,
                cause=entry.cause,
                exit_status=entry.exit_status,
                reason=entry.reason or placeholders.why_unstarted(entry, self._launch),
                record=record,
            )
        )

    async def _record_of(self, claim: ClaimId) -> StarterRecord | None:
        """Read the record that a claim's starter left. It decides whether the job runs again, so a
        failure of our own (no free descriptor, for instance) is retried and not taken for a missing
        record."""
        for _ in range(RECORD_TRIES):
            try:
                return await asyncio.to_thread(placeholders.read_record, claim, self._launch)
            except OSError as error:
                log.warning("record.not_read", claim=claim, reason=str(error))
                await asyncio.sleep(RECORD_AGAIN_S)
        return None

    async def _collect(self, claim: Claim) -> None:
        async with self._collects:
            try:
                reason = await self._ports.collect(claim, self.folder(claim.id))
            except OSError as error:
                reason = str(error)
        self._enqueue(Collected(claim=claim.id, reason=reason))

    def _machines(self, claim: ClaimId) -> int:
        """Number of machines of a claim: its first starter reports it, and each has a processor of
        the claim."""
        known = self._table.claims.get(claim)
        return 1 if known is None else max(1, min(len(known.hosts), known.hold.processors))

    def _handle_file_request(
        self,
        claim: ClaimId,
        nonce: str,
        question: Message,
        answer: Callable[[Message], None],
    ) -> None:
        self._group.create_task(self._answer_courier(claim, nonce, question, answer))

    async def _answer_courier(
        self,
        claim: ClaimId,
        nonce: str,
        question: Message,
        answer: Callable[[Message], None],
    ) -> None:
        try:
            said = await self._file_sync.answer(claim, nonce, question)
        except (ValueError, KeyError) as error:
            said = {"ok": False, "error": str(error)}
        answer(said)

    # At the start, and from time to time ---------------------------------------------------------

    async def _reconcile(self) -> None:
        """Reconcile the stored claims with the local manager's listing, once after the start."""
        await self._manager.opened()
        listed = await self._listing()
        await self._compare({ClaimId(entry.claim): entry for entry in listed})
        log.info("claims.reconciled", restored=len(self._restored), listed=len(listed))
        self._reconciled.set()

    async def _listing(self) -> tuple[Listed, ...]:
        """Return the local manager's listing, retrying until it answers: silence is not an empty
        list."""
        while True:
            try:
                return await self._manager.listing()
            except LocalManagerError as error:
                log.warning("claims.not_reconciled", reason=str(error))
                await asyncio.sleep(RECONCILE_AGAIN_S)

    async def _compare(self, listed: dict[ClaimId, Listed]) -> None:
        for claim in self._restored:
            entry = listed.get(claim)
            if entry is None:
                record = await self._record_of(claim)
                self._enqueue(BatchUnlisted(claim=claim, record=record))
            elif isinstance(entry, Ended):
                await self._batch_ended(entry)
        for claim, entry in listed.items():
            if not isinstance(entry, Ended):
                self._enqueue(BatchFound(claim=claim))

    async def _sweep(self) -> None:
        """Remove the folders of claims that were forgotten `keep_s` ago."""
        while math.isfinite(self._keep_s):
            await self._sweep_once()
            await asyncio.sleep(min(SWEEP_S, max(1.0, self._keep_s)))

    async def _sweep_once(self) -> None:
        try:
            old = await asyncio.to_thread(self._find_old)
        except OSError as error:  # no free descriptor, for instance: retried later
            log.warning("claims.not_swept", reason=str(error))
            return
        # Read now, not earlier: a claim is in the table before its folder exists.
        known = {folder_name(claim) for claim in self._table.claims}
        await asyncio.to_thread(remove_all, [path for path in old if path.name not in known])

    def _find_old(self) -> list[Path]:
        """List the entries that did not change for `keep_s`. Programs can rename their claims'
        folders and leave links and files beside them, so everything that belongs to no known claim
        goes."""
        before = self._ports.unix_clock() - self._keep_s
        found = []
        for path in sorted(self._launch.root.iterdir()):
            with suppress(OSError):  # removed meanwhile
                if path.name != placeholders.STARTERS and _last_written_at(path) < before:
                    found.append(path)
        return found


def _last_written_at(path: Path) -> float:
    """Wall-clock time of the starter's last write; the creation time of anything but a claim's
    folder. Uses the change time (ctime), because programs can set the others, even to a future
    year."""
    status = path.lstat()
    state = path / STATE_FOLDER
    if stat.S_ISDIR(status.st_mode) and state.is_dir():
        return max(status.st_ctime, state.lstat().st_ctime)
    return status.st_ctime
