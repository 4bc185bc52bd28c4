"""The simulated daemon: one scheduler, a list for a journal, the ends of the links, the leases.

Events are taken in batches: handled, committed, and only then carried out; a crash before the
commit loses events and actions together. After a restart the journal is replayed with policies
that must not be asked.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import dataclass
from typing import Protocol

from koala.core.actions import (
    AcknowledgeClaim,
    Action,
    Announce,
    ArmClaim,
    CancelTransfer,
    ClaimProcessors,
    PublishOutputs,
    ReleaseClaim,
    StartTransfer,
    StopClaim,
    TryPaths,
)
from koala.core.events import (
    ClaimFenced,
    ClaimGone,
    DaemonStarted,
    Event,
    ParametersChanged,
    SiteDisconnected,
    SiteRegistered,
    Woken,
)
from koala.core.job import Claim, ClaimPhase
from koala.core.leases import Leases
from koala.core.parameters import Parameters
from koala.core.scheduler import Scheduler
from koala.core.slots import NO_POLICIES, Policies
from koala.core.snapshot import digest
from koala.core.values import Instant, SiteName
from koala.sim.engine import Engine, Entry, Rank
from koala.sim.faults import FaultPlan
from koala.sim.links import FromAgent, InventoryEnd, Link, Order, Ping, Pong, Register


@dataclass(frozen=True, slots=True, kw_only=True)
class Record:
    """One record of the journal; the answers are kept as JSON, as on a disk."""

    event: Event
    at: Instant
    answers: str


class Overseer(Protocol):
    """Who sees everything that the daemon does."""

    def handled(self, scheduler: Scheduler, event: Event, now: Instant) -> None:
        """An event was handled; nothing has left yet."""

    def committed(self, scheduler: Scheduler, event: Event, actions: list[Action]) -> None:
        """An event is durable, and its actions are about to leave."""

    def replayed(self, before: str | None, after: str) -> None:
        """A journal was replayed: the digest of what was lost, if all was durable, and of what
        came back.
        """


@dataclass(frozen=True, slots=True, kw_only=True)
class _Waiting:
    """Something in the inbox. Without an event it is the end of a site's inventory."""

    event: Event | None
    link: Link | None = None
    when_durable: Callable[[], None] | None = None


def replay(journal: list[Record], parameters: Parameters, policies: Policies) -> Scheduler:
    """The state that a journal gives; from then on `policies` are asked."""
    scheduler = Scheduler(parameters, NO_POLICIES)
    for record in journal:
        scheduler.replay(record.event, record.at, json.loads(record.answers))
    scheduler.policies = policies
    return scheduler


class Daemon:
    """One daemon and its lives."""

    def __init__(
        self,
        engine: Engine,
        plan: FaultPlan,
        *,
        parameters: Parameters,
        policies: Policies,
        overseer: Overseer,
    ) -> None:
        self.engine = engine
        self.journal: list[Record] = []
        self.is_up = False
        self.scheduler = Scheduler(parameters, policies)
        self.links: dict[SiteName, Link] = {}
        self.bookable: tuple[tuple[SiteName, SiteName, float], ...] = ()
        self._plan = plan
        self._leases = Leases(0.0)
        self._parameters = parameters
        self._policies = policies
        self._overseer = overseer
        self._life = 0
        self._inbox: list[_Waiting] = []
        self._is_committing = False
        self._wake: Entry | None = None
        self._served: dict[SiteName, bool] = {}
        self._is_fencing = False
        self._lost_at: dict[SiteName, Instant] = {}

    # --- lives ---

    def start(self) -> None:
        """Replay, and begin a new epoch."""
        assert not self.is_up
        if self._life:
            self.scheduler = replay(self.journal, self._parameters, self._policies)
            self._overseer.replayed(self._lost_digest, digest(self.scheduler))
        self.is_up = True
        self._life += 1
        self._leases = Leases(self.engine.now)
        self._served = {}
        self._lost_at = {}
        self._is_fencing = False
        self.tell(DaemonStarted(epoch=self._life))
        self.tell(ParametersChanged(parameters=self._parameters, bookable=self.bookable))

    _lost_digest: str | None = None

    def crash(self) -> None:
        """All that is not in the journal is lost."""
        if not self.is_up:
            return
        self._lost_digest = None if self._is_committing else digest(self.scheduler)
        self.is_up = False
        self._life_over()
        for link in self.links.values():
            link.daemon_died()

    def _life_over(self) -> None:
        self._inbox = []
        self._is_committing = False
        if self._wake is not None:
            self._wake.cancel()
            self._wake = None

    # --- inbox, commit, effects ---

    def tell(self, event: Event, when_durable: Callable[[], None] | None = None) -> None:
        """Put an event into the inbox; lost when the daemon is down."""
        if self.is_up:
            self._put(_Waiting(event=event, when_durable=when_durable))

    def _put(self, waiting: _Waiting) -> None:
        self._inbox.append(waiting)
        self._work()

    def _work(self) -> None:
        """Handle all that waits as one batch, and commit it."""
        if self._is_committing or not self._inbox:
            return
        batch, self._inbox = self._inbox, []
        now = self.engine.now
        records: list[Record] = []
        effects: list[tuple[_Waiting, list[Action]]] = []
        for waiting in batch:
            actions: list[Action] = []
            if waiting.event is not None:
                actions = self._handle(waiting.event, waiting.link)
                answers = json.dumps(self.scheduler.answers)
                records.append(Record(event=waiting.event, at=now, answers=answers))
            effects.append((waiting, actions))
        self._is_committing = True
        life = self._life
        self.engine.after(self._plan.commit_s(now), lambda: self._committed(life, records, effects))

    def _handle(self, event: Event, link: Link | None) -> list[Action]:
        is_stale = isinstance(event, ClaimGone) and event.claim not in self.scheduler.ledger
        actions = self.scheduler.handle(event, self.engine.now)
        self._overseer.handled(self.scheduler, event, self.engine.now)
        if is_stale and link is not None and isinstance(event, ClaimGone):
            # The end of a claim that nobody waits for any more: the agent may forget it, too.
            actions = [*actions, AcknowledgeClaim(claim=event.claim, site=link.site)]
        return actions

    def _committed(
        self, life: int, records: list[Record], effects: list[tuple[_Waiting, list[Action]]]
    ) -> None:
        if life != self._life or not self.is_up:
            return
        self.journal.extend(records)
        self._is_committing = False
        for waiting, actions in effects:
            if waiting.event is not None:
                self._overseer.committed(self.scheduler, waiting.event, actions)
            for action in actions:
                self._carry_out(action)
            if waiting.event is None and waiting.link is not None:
                self._serve(waiting.link)
            if waiting.when_durable is not None:
                waiting.when_durable()
        self._set_fences()
        self._work()
        self._set_wake()

    def _set_wake(self) -> None:
        if self._wake is not None:
            self._wake.cancel()
            self._wake = None
        if self.scheduler.wake_at is not None and not self._is_committing:
            self._wake = self.engine.at(
                self.scheduler.wake_at, lambda: self.tell(Woken()), rank=Rank.WAKE
            )

    def _carry_out(self, action: Action) -> None:
        match action:
            case (
                ClaimProcessors()
                | TryPaths()
                | ArmClaim()
                | ReleaseClaim()
                | StopClaim()
                | AcknowledgeClaim()
            ):
                self._send(action.site, action)
            case StartTransfer() | CancelTransfer():
                self._send(action.target, action)
            case PublishOutputs() | Announce():
                pass

    def _send(self, site: SiteName, action: Order | StartTransfer | CancelTransfer) -> None:
        """To a site that has been told all that is wanted; else it will be, and that includes
        this.
        """
        if self._served.get(site):
            self.links[site].to_agent(action)

    def _serve(self, link: Link) -> None:
        """The inventory is durable: all that is wanted goes out, then differences."""
        if link.is_open_for_daemon:
            self._served[link.site] = True
            link.to_agent(self.scheduler.wanted(link.site))

    # --- the ends of the links ---

    def receive(self, link: Link, message: FromAgent) -> None:
        """A message from an agent becomes an event."""
        match message:
            case Register(facts=facts, idle=idle):
                self._served[link.site] = False
                self._put(_Waiting(event=SiteRegistered(site=link.site, facts=facts, idle=idle)))
            case InventoryEnd():
                self._put(_Waiting(event=None, link=link))
            case Ping():
                self._answer(link, message)
            case _:
                self._put(_Waiting(event=message, link=link))

    def lost(self, link: Link) -> None:
        """The session is cut."""
        self._served[link.site] = False
        self._lost_at[link.site] = self.engine.now
        self.tell(SiteDisconnected(site=link.site))

    # --- leases ---

    def _answer(self, link: Link, ping: Ping) -> None:
        """Only a claim that is wanted gets an answer."""
        claim = self.scheduler.ledger.get(ping.claim)
        if claim is None or claim.phase is ClaimPhase.STOPPING:
            return
        if claim.nonce not in ("", ping.nonce):
            return
        self._leases.answer(ping.claim, self.engine.now)
        link.to_agent(Pong(claim=ping.claim, nonce=ping.nonce, sent_at=ping.sent_at))

    def fence_at(self, claim: Claim) -> Instant:
        """From when on nothing of the claim can live."""
        limits = self._parameters
        return self._leases.fence_at(
            claim,
            self.scheduler.sites,
            fence_s=limits.fence_s,
            hold_fence_s=limits.hold_fence_s,
            now=self.engine.now,
        )

    def _set_fences(self) -> None:
        if self.scheduler.ledger and not self._is_fencing:
            self._is_fencing = True
            every_s = max(0.5, min(self._parameters.hold_fence_s / 4, 3600.0))
            life = self._life
            self.engine.after(every_s, lambda: self._fence(life))

    def _fence(self, life: int) -> None:
        if life != self._life or not self.is_up:
            return
        self._is_fencing = False
        for fenced in self._overdue():
            self.tell(fenced)
        self._set_fences()

    def _overdue(self) -> list[ClaimFenced]:
        limits = self._parameters
        return self._leases.overdue(
            self.scheduler.ledger,
            self.scheduler.sites,
            fence_s=limits.fence_s,
            hold_fence_s=limits.hold_fence_s,
            now=self.engine.now,
        )
