"""The driver of the claim table: feeds it events, stores its changes, carries out its outputs.

One task owns the table (`common.runtime.driver`). It handles the waiting events as one batch,
stores all changes in one transaction (group commit), and only then carries out the other outputs.
Calls into the local manager run beside it, one at a time for each claim, and report back with
events. Reports to the daemon rest on stored state only: `inventory` reads the committed claims, so
a crash can undo nothing that was reported."""

from __future__ import annotations

import asyncio
import math
import secrets
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

from koala.common.protocol import messages
from koala.common.protocol.names import ClaimId, is_claim_id
from koala.common.runtime.clock import boot_id
from koala.common.runtime.driver import Driver
from koala.common.runtime.structured_log import get_logger
from koala.common.runtime.threads import BatchedCalls
from koala.errors import LocalManagerError, SpecError
from koala_agent.claim_surroundings import ClaimSurroundings
from koala_agent.claims import events as ev
from koala_agent.claims import states as claim_states
from koala_agent.claims.committed import CommittedClaims
from koala_agent.claims.folder import StarterRecord
from koala_agent.claims.settings import LeaseTimes, Limits
from koala_agent.claims.states import Claim
from koala_agent.claims.table import ClaimTable
from koala_agent.lrm.local_manager import (
    EndCause,
    Ended,
    Idle,
    Listed,
    PausedError,
    Placeholder,
    Queued,
    RequestRefusedError,
    Running,
)
from koala_agent.placeholders.allowed_programs import NotAllowedError
from koala_agent.placeholders.file_sync import FileSyncServer, Message
from koala_agent.placeholders.submission import Preparation
from koala_agent.starter_link.listener import Carry, StarterListener
from koala_agent.starter_link.mailbox import Mailbox, too_short

if TYPE_CHECKING:
    from pathlib import Path


BATCH_MAX = 1_000
CALLS_MAX = 32
"""Calls into the local manager at one time."""
UNPACKS_MAX = 4
"""Archives that are unpacked at one time. The other threads of the pool are for other claims."""
PREPARED_MAX = 8
"""Claims whose folders are made in one call of a thread, before the first of them is submitted."""
COLLECTS_MAX = 32
"""Concurrent calls of `collect`: files of a program may take long, and must not delay other ends.
"""
LISTING_S = 5.0
"""How long an inventory waits for the first listing: well below the silence that ends a session."""
RECONCILE_AGAIN_S = 2.0
STRAYS_S = 120.0
"""After the start: no command of a life before takes longer."""
RECORD_TRIES, RECORD_AGAIN_S = 60, 1.0
"""Tries to read a starter's record when our own disk or process fails, and the pause between them.
"""
SAME_CLOCK_S = 1.0
"""Difference of two clocks that is none for a booking."""
SWEEP_S = 60.0
WATERMARK_S = 10.0
"""Longest time before a new watermark, or that a claim is forgotten, is stored on its own."""

log = get_logger()

Order = messages.Hold | ev.FromDaemon


class ClaimDriver:
    """Driver of a site's claims. Build it, then await `run` in a task until the agent ends."""

    def __init__(
        self,
        *,
        surroundings: ClaimSurroundings,
        send_report: Callable[[messages.ToDaemon], None],
        changed: Callable[[], None] = lambda: None,
        limits: Limits,
        listen: str = "127.0.0.1",
        port: int = 0,
        keep_s: float = math.inf,
        carry: Carry | None = None,
    ) -> None:
        """`send_report` receives reports, `carry` connections to ports of programs. `changed` is
        called when `trouble` or `asked_through` may have changed."""
        store, manager, folders = surroundings.store, surroundings.manager, surroundings.folders
        restored = store.claims()
        self.port = 0
        self._surroundings = surroundings
        self._store = store
        self._manager = manager
        self._folders = folders
        self._send_report = send_report
        self._changed = changed
        self._mailbox = surroundings.mailbox
        self._listen = listen
        self._port = port
        self._keep_s = keep_s
        self._leases = store.leases
        self._daemon_ahead_s = 0.0
        self._table = ClaimTable(
            limits=limits,
            leases=self._leases,
            now=surroundings.clock(),
            boot=boot_id(),
            restored=restored,
            forgotten=store.forgotten(),
        )
        self._restored = tuple(claim.id for claim in restored)
        self._committed = CommittedClaims(self._table.claims.values(), number=manager.number)
        self._file_sync = FileSyncServer(
            claim=self._committed.stored.get,
            folder=folders.folder,
            input_named=surroundings.input_named,
            room_bytes=surroundings.room_bytes,
        )
        self._inbox: asyncio.Queue[ev.Event] = asyncio.Queue()
        self._driver = Driver(
            self._table,
            self._inbox,
            woken=ev.Woken(),
            carry_out=self._carry_out_all,
            clock=surroundings.clock,
            batch_max=BATCH_MAX,
        )
        self._listener = StarterListener(
            emit=self._inbox.put_nowait,
            secret=self._table.secret,
            now=surroundings.clock,
            ask=None if folders.is_shared else self._handle_file_request,
            nodes=self._nodes,
            carry=carry,
        )
        self._unstored: list[ev.StoreClaim | ev.Forget] = []  # changes that may be lost
        self._tasks = asyncio.TaskGroup()
        self._listening = asyncio.Event()
        self._reconciled = asyncio.Event()
        self._calls = asyncio.Semaphore(CALLS_MAX)
        self._preparations = BatchedCalls(folders.prepare, batch_max=PREPARED_MAX)
        self._unpacks = asyncio.Semaphore(UNPACKS_MAX)
        self._collects = asyncio.Semaphore(COLLECTS_MAX)
        self._call_locks: dict[ClaimId, asyncio.Lock] = {}
        self._withdrawing: set[ClaimId] = set()

    # What the assembly calls ---------------------------------------------------------------------

    async def run(self) -> None:
        """Serve until cancelled; batch jobs and starters go on. Raises OSError when no port can be
        opened, JournalError when nothing can be stored."""
        self._folders.install()
        if self._mailbox is None:
            self.port = await self._listener.listen(
                self._listen, self._port or self._store.port, is_fixed=self._port > 0
            )
            self._store.set_port(self.port)
        try:
            async with self._tasks:
                if self._mailbox is not None:
                    self._tasks.create_task(self._carry(self._mailbox))
                self._listening.set()
                self._tasks.create_task(self._reconcile())
                self._tasks.create_task(self._sweep())
                self._tasks.create_task(self._store_watermarks())
                await self._driver.run()
        finally:
            self._listener.close()

    async def _carry(self, mailbox: Mailbox) -> None:
        """Exchange messages with starters by files."""
        accept, secret = self._listener.accept_mailbox, self._table.secret
        await mailbox.run(accept, secret, self._changed)

    @property
    def trouble(self) -> str:
        """Reasons why starters cannot be reached in time, and why claims do not wait in the local
        queue; empty when all is well."""
        mailbox = self._mailbox
        unreached = "" if mailbox is None else mailbox.trouble or too_short(self._leases)
        return "; ".join(filter(None, (unreached, self._table.trouble)))

    def untaken(self) -> tuple[messages.Wait, ...]:
        """Return the waits of claims that the local queue has not taken so far."""
        return claim_states.waits_of(self._table.claims.values())

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
            log.warning("claims.reported_without_listing")

    def order(self, order: Order, *, shortage: str = "") -> None:
        """Queue an order of the daemon. `shortage` is why a new claim is refused now."""
        if isinstance(order, messages.Hold):
            if order.begins_at:
                order = replace(order, begins_at=order.begins_at - self._daemon_ahead_s)
            self._committed.note_ask(order, is_known=order.claim in self._table.claims)
            hold = ev.HoldOrdered(
                hold=order,
                secret=secrets.token_hex(16),
                shortage=shortage,
                begins_in_s=order.begins_at - self._surroundings.calendar(),
            )
            self._inbox.put_nowait(hold)
        else:
            self._inbox.put_nowait(order)

    def set_daemon_time(self, then: float, age_s: tuple[float, float]) -> None:
        """Note the daemon's time, which it told between `age_s` seconds ago: instants of its orders
        are by that, bookings by the site's. Clocks count as one where a delay may explain it."""
        least_s, most_s = (then + age - self._surroundings.calendar() for age in age_s)
        if least_s > SAME_CLOCK_S:
            self._daemon_ahead_s = least_s
        else:
            self._daemon_ahead_s = most_s if most_s < -SAME_CLOCK_S else 0.0

    def set_leases(self, leases: LeaseTimes) -> None:
        """Store the leases of a new session and hand them to the table."""
        self._store.set_leases(leases)
        self._leases = leases
        self._inbox.put_nowait(ev.LeasesSet(leases=leases))

    def stop_unnamed(self, claims: frozenset[str]) -> None:
        """Stop all claims that the daemon did not name."""
        self._inbox.put_nowait(ev.WantedComplete(claims=claims))

    def handle_listed(self, entry: Listed | Idle) -> None:
        """Handle a report of the local manager (its `Tell`); idle figures are ignored."""
        match entry:
            case Ended(claim=claim) if self._listening.is_set() and is_claim_id(claim):
                if self._needs_record(ClaimId(claim)):
                    self._tasks.create_task(self._batch_ended(entry))
                else:
                    self._report_batch_end(entry, None)
            case Ended() | Queued() | Running() | Idle():
                pass  # an end that was reported too early is found by `_reconcile`

    def inventory(self) -> list[messages.Report | messages.KvPut]:
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

    # Outputs of the table ------------------------------------------------------------------------

    async def _carry_out_all(self, outputs: Sequence[ev.Output]) -> None:
        """Store all changes of a batch, then carry out the rest.

        That claims are forgotten is stored with the next change: an agent that dies before reports
        them as gone once more, and they are acknowledged again.
        """
        writes = [output for output in outputs if isinstance(output, ev.StoreClaim | ev.Forget)]
        if any(isinstance(write, ev.StoreClaim) for write in writes):
            writes, self._unstored = [*self._unstored, *writes], []
            await self._surroundings.commit(writes)
        else:
            self._unstored += writes
        for output in outputs:
            self._carry_out(output)

    async def _store_watermarks(self) -> None:
        """Store what waits for another change when there is none: watermarks, and which claims are
        forgotten."""
        while True:
            await asyncio.sleep(WATERMARK_S)
            if self._unstored or self._store.has_staged_watermark:
                writes, self._unstored = self._unstored, []
                await self._surroundings.commit(writes)

    def _carry_out(self, output: ev.Output) -> None:
        match output:
            case ev.StoreClaim(claim=claim):
                self._committed.apply(output)
                if isinstance(claim.state, claim_states.Granted):
                    self._manager.note_start(claim.id)
            case ev.Forget(claim=claim_id):
                self._committed.apply(output)
                self._call_locks.pop(claim_id, None)
            case ev.SendToDaemon(message=message):
                self._report(message)
            case ev.SendToStarter(claim=claim_id, nonce=nonce, message=to_starter):
                self._listener.send(claim_id, nonce, to_starter)
            case _:
                self._call(output)

    def _call(self, output: ev.Submit | ev.SetGate | ev.Withdraw | ev.Left | ev.Collect) -> None:
        match output:
            case ev.Submit(claim=claim):
                self._tasks.create_task(self._submit(claim))
            case ev.SetGate():
                self._tasks.create_task(self._set_gate(output))
            case ev.Withdraw(claim=claim_id) if claim_id not in self._withdrawing:
                self._withdrawing.add(claim_id)
                self._tasks.create_task(self._withdraw(claim_id))
            case ev.Withdraw():
                pass  # it waits for the batch system, and is ordered again if it fails
            case ev.Left(claim=claim_id, is_gone=is_gone):
                self._manager.note_left(claim_id, is_gone=is_gone)
            case ev.Collect(claim=claim):
                self._tasks.create_task(self._collect(claim))

    def _report(self, message: messages.ToDaemon) -> None:
        if isinstance(message, messages.Report):
            message = self._committed.with_batch_job(message)
            log.info("claim.reported", claim=message.claim, state=message.state.value)
        self._send_report(message)

    # Calls ---------------------------------------------------------------------------------------

    def _call_lock(self, claim: ClaimId) -> asyncio.Lock:
        """Return the lock that serializes the calls about one claim: a withdrawal never overtakes
        its submission or its gate."""
        return self._call_locks.setdefault(claim, asyncio.Lock())

    async def _submit(self, claim: Claim) -> None:
        has_requests = False
        async with self._call_lock(claim.id):
            try:
                archive = await self._surroundings.archive(claim.hold)
                placeholder = await self._prepare(claim, archive)
                has_requests = placeholder.has_resource_requests()
                async with self._calls:
                    await self._surroundings.prepare_input(claim.hold)
                    await self._manager.submit(placeholder)
            except LocalManagerError as error:
                is_refused = has_requests or isinstance(error, RequestRefusedError)
                kind = messages.EndKind.REFUSED if is_refused else messages.EndKind.FAILED
                again_s = error.again_s if isinstance(error, PausedError) else 0.0
                self._submit_failed(
                    claim.id, str(error), kind, is_transient=error.transient, again_s=again_s
                )
            except NotAllowedError as error:
                self._submit_failed(claim.id, str(error), messages.EndKind.REFUSED)
            except SpecError as error:  # no other site would take it
                self._submit_failed(claim.id, str(error), messages.EndKind.UNEXECUTABLE)
            except OSError as error:
                self._submit_failed(claim.id, f"work folder: {error}", messages.EndKind.FAILED)
            self._committed.note_submitted(claim.id)
            self._changed()

    async def _prepare(self, claim: Claim, archive: Path | None) -> Placeholder:
        """Make the claim's folder. Unpacking an archive may take long, so it delays no other."""
        order = Preparation(
            claim=claim,
            archive=archive,
            port=self.port,
            leases=self._leases,
            times=self._manager.times(claim.hold.program.resources()),
        )
        if archive is None:
            return await self._preparations.call(order)
        async with self._unpacks:
            return await BatchedCalls(self._folders.prepare, batch_max=1).call(order)

    def _submit_failed(
        self,
        claim: ClaimId,
        reason: str,
        kind: messages.EndKind,
        *,
        is_transient: bool = False,
        again_s: float = 0.0,
    ) -> None:
        log.warning("claim.submission_failed", claim=claim, reason=reason)
        self._inbox.put_nowait(
            ev.SubmitFailed(
                claim=claim,
                reason=reason,
                is_transient=is_transient,
                kind=kind,
                again_s=again_s,
            )
        )

    async def _set_gate(self, order: ev.SetGate) -> None:
        """Gate or open a batch job, unless that is not wanted any more when its turn has come."""
        async with self._call_lock(order.claim), self._calls:
            if not self._is_gate_wanted(order):
                return
            try:
                await self._manager.set_gate(order.claim, is_gated=order.is_gated)
            except LocalManagerError as error:
                # The table orders it again.
                log.warning("claim.gate_failed", claim=order.claim, reason=str(error))
                self._inbox.put_nowait(ev.GateFailed(claim=order.claim))
            self._changed()

    def _is_gate_wanted(self, order: ev.SetGate) -> bool:
        claim = self._table.claims.get(order.claim)
        if claim is None or not isinstance(claim.state, claim_states.Asked):
            return False
        return claim.hold.is_gated == order.is_gated

    async def _withdraw(self, claim: ClaimId) -> None:
        """Order the end of a batch job, then check whether anything of it is left."""
        async with self._call_lock(claim):
            try:
                async with self._calls:
                    await self._manager.withdraw(claim)
                entry = await self._manager.find(claim)  # may wait for a listing
            except LocalManagerError as error:
                # The table orders it again.
                log.warning("claim.withdrawal_failed", claim=claim, reason=str(error))
                return
            finally:
                self._withdrawing.discard(claim)
        entry = entry or Ended(claim=claim, cause=EndCause.WITHDRAWN)
        if isinstance(entry, Ended):
            await self._batch_ended(entry)

    async def _batch_ended(self, entry: Ended) -> None:
        self._report_batch_end(entry, await self._record_of(ClaimId(entry.claim)))

    def _needs_record(self, claim: ClaimId) -> bool:
        """Return False for a claim whose starter has reported its end: its record says no more."""
        known = self._table.claims.get(claim)
        return known is None or not isinstance(known.state, claim_states.Ended)

    def _report_batch_end(self, entry: Ended, record: StarterRecord | None) -> None:
        self._inbox.put_nowait(
            ev.BatchEnded(
                claim=ClaimId(entry.claim),
                cause=entry.cause,
                exit_status=entry.exit_status,
                reason=entry.reason or self._folders.why_unstarted(entry),
                waited_for=entry.waited_for,
                record=record,
            )
        )

    async def _record_of(self, claim: ClaimId) -> StarterRecord | None:
        """Read the record that a claim's starter left. It decides whether the job runs again, so a
        failure of our own (no free descriptor, for instance) is retried and not taken for a missing
        record."""
        for _ in range(RECORD_TRIES):
            try:
                return await asyncio.to_thread(self._folders.record, claim)
            except OSError as error:
                log.warning("starter_record.not_read", claim=claim, reason=str(error))
                await asyncio.sleep(RECORD_AGAIN_S)
        return None

    async def _collect(self, claim: Claim) -> None:
        async with self._collects:
            try:
                reason = await self._surroundings.collect(claim, self._folders.folder(claim.id))
            except OSError as error:
                reason = str(error)
        self._inbox.put_nowait(ev.Collected(claim=claim.id, reason=reason))

    def _nodes(self, claim: ClaimId) -> int:
        """Return the number of nodes of a claim, as its first starter reports it; each has a
        processor."""
        known = self._table.claims.get(claim)
        return 1 if known is None else max(1, min(len(known.hosts), known.hold.processors))

    def _handle_file_request(
        self,
        claim: ClaimId,
        nonce: str,
        question: Message,
        answer: Callable[[Message], None],
    ) -> None:
        self._tasks.create_task(self._answer_file_request(claim, nonce, question, answer))

    async def _answer_file_request(
        self,
        claim: ClaimId,
        nonce: str,
        question: Message,
        answer: Callable[[Message], None],
    ) -> None:
        try:
            result = await self._file_sync.answer(claim, nonce, question)
        except (ValueError, KeyError) as error:
            result = {"ok": False, "error": str(error)}
        answer(result)

    # At the start, and from time to time ---------------------------------------------------------

    async def _reconcile(self) -> None:
        """Reconcile the stored claims with the local manager's listing, once after the start. A
        submission of the last life may still be on its way then: what it made is found later."""
        await self._manager.opened()
        listed = await self._listing()
        await self._compare({ClaimId(entry.claim): entry for entry in listed})
        log.info("claims.reconciled", restored=len(self._restored), listed=len(listed))
        self._reconciled.set()
        await asyncio.sleep(STRAYS_S)
        for entry in await self._listing():
            if not isinstance(entry, Ended) and entry.claim not in self._table.claims:
                self._inbox.put_nowait(ev.BatchFound(claim=ClaimId(entry.claim)))

    async def _listing(self) -> tuple[Listed, ...]:
        """Return the local manager's listing; retry until it answers: silence is no empty list."""
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
                self._inbox.put_nowait(ev.BatchUnlisted(claim=claim, record=record))
            elif isinstance(entry, Ended):
                await self._batch_ended(entry)
        for claim, entry in listed.items():
            if not isinstance(entry, Ended):
                self._inbox.put_nowait(ev.BatchFound(claim=claim))

    async def _sweep(self) -> None:
        """Remove the folders of claims that were forgotten `keep_s` ago."""
        while math.isfinite(self._keep_s):
            await self._sweep_once()
            await asyncio.sleep(min(SWEEP_S, max(1.0, self._keep_s)))

    async def _sweep_once(self) -> None:
        try:
            old = await asyncio.to_thread(self._folders.find_old, self._keep_s)
        except OSError as error:  # no free descriptor, for instance: retried later
            log.warning("claim_folders.not_cleaned_up", reason=str(error))
            return
        # Read now, not earlier: a claim is in the table before its folder exists.
        known = tuple(self._table.claims)
        await asyncio.to_thread(self._folders.remove, old, known=known)
