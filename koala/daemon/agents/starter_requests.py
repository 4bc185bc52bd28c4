"""Answer requests of starters that do not change the core's state: lease renewals and key-values.

A ping is answered only while its claim is wanted, at this site, by this starter, and while commits
succeed. A daemon that cannot write must let leases expire, because its successor may not know what
it promised.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from dataclasses import dataclass

from koala.common.protocol import messages
from koala.common.runtime.clock import Clock
from koala.common.runtime.structured_log import get_logger
from koala.core.awaited_passes import AwaitedPasses
from koala.core.leases import Leases
from koala.core.model.claim import Claim, Stopped
from koala.core.model.values import ClaimId, Instant, SiteName
from koala.core.scheduler import Scheduler
from koala.daemon.agents.kvstore import KeyValueStore, PendingGet
from koala.daemon.loop.group_commit import BatchContext, GroupCommit
from koala.errors import KoalaError, RejectedError, SpecError

ROUND_S = 0.25
OVERDUE_EVERY = 4  # rounds; leases are long
log = get_logger()


@dataclass(frozen=True, slots=True)
class _Asker:
    """Starter and request that wait for a value."""

    site: SiteName
    claim: ClaimId
    request: int


class StarterRequests:
    """Answers requests through `send`; passes parts of logs to `deliver_log`. `is_heard` tells if a
    site's agent is heard at an instant."""

    def __init__(
        self,
        scheduler: Scheduler,
        event_loop: GroupCommit,
        clock: Clock,
        *,
        send: Callable[[SiteName, messages.ToAgent], None],
        is_heard: Callable[[SiteName, Instant], bool],
        deliver_log: Callable[[SiteName, messages.LogChunk], None],
    ) -> None:
        self.lag_s = 0.0
        self.renewals = 0  # of leases, since the start
        self._scheduler = scheduler
        self._event_loop = event_loop
        self._clock = clock
        self._send = send
        self._is_heard = is_heard
        self._deliver_log = deliver_log
        self.leases = Leases(clock.now())
        self._awaited_passes = AwaitedPasses(clock.now())
        self._kvstore = KeyValueStore()
        self._rounds = 0

    def answer(self, site: SiteName, report: messages.AgentReport) -> bool:
        """Answer a request; return False for a report, which is the core's to handle."""
        match report:
            case messages.Ping():
                self._answer_ping(site, report)
            case messages.KvPut():
                self._put_value(site, report)
            case messages.KvGet():
                self._get_value(site, report)
            case messages.LogChunk():
                self._deliver_log(site, report)
            case _:
                return False
        return True

    async def run(self) -> None:
        """Fence overdue claims and expire waiting gets periodically, until cancelled."""
        while True:
            due_at = self._clock.now() + ROUND_S
            await asyncio.sleep(ROUND_S)
            self.lag_s = max(0.0, self._clock.now() - due_at)
            self.expire()

    def expire(self) -> None:
        """Expire waiting gets, and every few calls fence claims whose leases are overdue."""
        self._end_gets(self._kvstore.expire(self._clock.now()))
        self._rounds += 1
        if self._rounds % OVERDUE_EVERY == 0:
            self._fence()
            live = {job: attempt.number for job, attempt in self._scheduler.placed.items()}
            self._end_gets(self._kvstore.forget(live))

    # --- leases -----------------------------------------------------------------------------------

    def _answer_ping(self, site: SiteName, ping: messages.Ping) -> None:
        claim = self._scheduler.ledger.get(ping.claim)
        now = self._clock.now()
        if claim is None:
            self._stop_if_unknown(site, ping.claim)
            return
        is_wanted = claim.site == site and not isinstance(claim.phase, Stopped)
        is_bound = claim.grant is None or claim.grant.nonce in ("", ping.nonce)
        if is_wanted and is_bound and self._event_loop.can_renew_leases(now):
            self.leases.answer(claim.id, now)
            self.renewals += 1
            pong = messages.Pong(claim=claim.id, nonce=ping.nonce, sent_at=ping.sent_at, now=now)
            self._send(site, pong)
        elif claim.site == site:
            self.leases.note_unanswered(claim.id, now)

    def _stop_if_unknown(self, site: SiteName, claim: ClaimId) -> None:
        """Order a stop through the event loop: the event that removed the claim from the ledger
        may not be durable yet."""

        def is_known(batch: BatchContext) -> bool:
            return claim in batch.scheduler.ledger

        def stop(known: bool, _: KoalaError | None) -> None:  # noqa: FBT001 - post's form
            if not known:
                self._send(site, messages.Stop(claim=claim))

        self._event_loop.post(is_known, stop)

    def _fence(self) -> None:
        """Fence overdue claims in a batch, where the ledger reflects all events so far."""

        def fence(batch: BatchContext) -> None:
            scheduler = batch.scheduler
            for event in self.leases.overdue(
                scheduler.ledger,
                scheduler.sites,
                fence_s=scheduler.parameters.fence_s,
                hold_fence_s=scheduler.parameters.hold_fence_s,
                now=batch.now,
            ):
                log.warning("claim.fenced", claim=event.claim)
                batch.emit(event)
            for event in self._awaited_passes.overdue(
                scheduler, is_heard=self._is_heard, now=batch.now
            ):
                log.warning("claim.pass_not_told", claim=event.claim)
                batch.emit(event)

        if self._scheduler.ledger:
            self._event_loop.post(fence)

    # --- key-values -------------------------------------------------------------------------------

    def _put_value(self, site: SiteName, put: messages.KvPut) -> None:
        try:
            claim = self._live_claim(site, put.claim)
            answered = self._kvstore.put(claim.job, claim.attempt, name=put.name, value=put.value)
        except KoalaError as error:
            if put.request:
                self._send(site, _answer(put.claim, put.request, error=str(error)))
            return
        if put.request:
            self._send(site, _answer(put.claim, put.request))
        for waiting in answered:
            asker = waiting.asker
            assert isinstance(asker, _Asker)
            answer = _answer(asker.claim, asker.request, value=put.value)
            self._send(asker.site, answer)

    def _get_value(self, site: SiteName, get: messages.KvGet) -> None:
        try:
            claim = self._live_claim(site, get.claim)
            value = self._kvstore.get(
                claim.job,
                claim.attempt,
                asker=_Asker(site, get.claim, get.request),
                name=get.name,
                wait_s=get.wait_s,
                now=self._clock.now(),
            )
        except (SpecError, RejectedError) as error:
            self._send(site, _answer(get.claim, get.request, error=str(error)))
            return
        if value is not None:
            self._send(site, _answer(get.claim, get.request, value=value))

    def _end_gets(self, gets: list[PendingGet]) -> None:
        for waiting in gets:
            asker = waiting.asker
            assert isinstance(asker, _Asker)
            error = f"no value for {waiting.name!r} after {waiting.wait_s:g} s"
            self._send(asker.site, _answer(asker.claim, asker.request, error=error))

    def _live_claim(self, site: SiteName, identity: ClaimId) -> Claim:
        """Return the claim if it is wanted and of its job's live attempt. Raises RejectedError."""
        claim = self._scheduler.ledger.get(identity)
        attempt = self._scheduler.placed.get(claim.job) if claim is not None else None
        is_live = (
            claim is not None
            and claim.site == site
            and not isinstance(claim.phase, Stopped)
            and attempt is not None
            and attempt.number == claim.attempt
        )
        if claim is None or not is_live:
            raise RejectedError(f"{identity} is not of a live attempt")
        return claim


def _answer(claim: ClaimId, request: int, *, value: str = "", error: str = "") -> messages.KvAnswer:
    """Answer to a put or get; it is well when there is no error."""
    return messages.KvAnswer(claim=claim, request=request, ok=not error, value=value, error=error)
