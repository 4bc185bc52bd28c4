"""The link between an agent and the daemon: one ordered stream a session (design: Link).

Faults are cuts, not reorderings: at a cut all that travels is lost in both directions, each end
learns of it in its own time, and the agent dials anew. What one end sends before it has learnt of
the cut is lost, too.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Protocol, TypeAlias

from koala.core.actions import (
    AcknowledgeClaim,
    ArmClaim,
    CancelTransfer,
    ClaimProcessors,
    ReleaseClaim,
    StartTransfer,
    StopClaim,
    TryPaths,
    Wanted,
)
from koala.core.events import (
    ClaimArmed,
    ClaimGone,
    ClaimGranted,
    ClaimPassed,
    PathsTried,
    SiteReported,
    TransferFailed,
    TransferFinished,
)
from koala.core.grid import SiteFacts
from koala.core.values import ClaimId, Instant, SiteName
from koala.sim.engine import Engine
from koala.sim.faults import FaultPlan


@dataclass(frozen=True, slots=True, kw_only=True)
class Register:
    """An agent's first word in a session."""

    facts: SiteFacts
    idle: int


@dataclass(frozen=True, slots=True, kw_only=True)
class InventoryEnd:
    """All that the agent has is said."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Ping:
    """From a starter through its agent; `sent_at` is its own clock, given back untouched."""

    claim: ClaimId
    nonce: str
    sent_at: Instant


@dataclass(frozen=True, slots=True, kw_only=True)
class Pong:
    """The daemon wants this claim."""

    claim: ClaimId
    nonce: str
    sent_at: Instant


Report: TypeAlias = (
    ClaimGranted
    | PathsTried
    | ClaimArmed
    | ClaimPassed
    | ClaimGone
    | TransferFinished
    | TransferFailed
    | SiteReported
)
FromAgent: TypeAlias = Register | InventoryEnd | Ping | Report
Order: TypeAlias = (
    ClaimProcessors | TryPaths | ArmClaim | ReleaseClaim | StopClaim | AcknowledgeClaim
)
ToAgent: TypeAlias = Order | StartTransfer | CancelTransfer | Wanted | Pong


class DaemonEnd(Protocol):
    """What a link needs of the daemon."""

    @property
    def is_up(self) -> bool:
        """It listens."""

    def receive(self, link: Link, message: FromAgent) -> None:
        """A message of the session that the daemon believes in."""

    def lost(self, link: Link) -> None:
        """The daemon has learnt that the session is cut."""


class AgentEnd(Protocol):
    """What a link needs of an agent."""

    @property
    def is_up(self) -> bool:
        """It runs."""

    def connected(self) -> None:
        """A new session is open: register, and say the inventory."""

    def receive(self, message: ToAgent) -> None:
        """A message of the session that the agent believes in."""


class _Session:
    """One stream. `is_cut` is the truth; each end's belief is in the link."""

    __slots__ = ("arrives_at", "is_cut")

    def __init__(self) -> None:
        self.is_cut = False
        self.arrives_at = {True: 0.0, False: 0.0}


class Link:
    """The sessions of one agent with the daemon, one after the other."""

    def __init__(
        self, engine: Engine, plan: FaultPlan, site: SiteName, daemon: DaemonEnd, agent: AgentEnd
    ) -> None:
        self.site = site
        self.down_until: Instant = 0.0
        self._engine = engine
        self._plan = plan
        self._daemon = daemon
        self._agent = agent
        self._truth: _Session | None = None
        self._agents: _Session | None = None  # the one the agent believes in
        self._daemons: _Session | None = None
        self._is_dialling = False

    @property
    def is_open_for_agent(self) -> bool:
        """The agent believes that it has a session."""
        return self._agents is not None

    @property
    def is_open_for_daemon(self) -> bool:
        """The daemon believes that it has a session."""
        return self._daemons is not None

    def dial(self) -> None:
        """The agent wants a session, and tries until it has one."""
        if not self._is_dialling and self._agents is None and self._agent.is_up:
            self._is_dialling = True
            self._engine.after(self._plan.redial_s(), self._try)

    def _try(self) -> None:
        self._is_dialling = False
        if not self._agent.is_up or self._agents is not None:
            return
        if not self._daemon.is_up or self._engine.now < self.down_until:
            self.dial()
            return
        self.cut()
        self._truth = self._agents = _Session()
        self._agent.connected()

    def cut(self, *, for_s: float = 0.0) -> None:
        """The session breaks; no new one before `for_s` have passed."""
        self.down_until = max(self.down_until, self._engine.now + for_s)
        session, self._truth = self._truth, None
        if session is None:
            return
        session.is_cut = True
        now = self._engine.now
        self._engine.after(self._plan.notice_s(now), lambda: self._agent_learns(session))
        self._engine.after(self._plan.notice_s(now), lambda: self._daemon_learns(session))

    def _agent_learns(self, session: _Session) -> None:
        if self._agents is session:
            self._agents = None
            self.dial()

    def _daemon_learns(self, session: _Session) -> None:
        if self._daemons is session:
            self._daemons = None
            self._daemon.lost(self)

    def agent_died(self) -> None:
        """The agent's process is gone, and its end of the session with it."""
        self._agents = None
        self.cut()

    def daemon_died(self) -> None:
        """The daemon's process is gone, and its end of the session with it."""
        self._daemons = None
        self.cut()

    def to_daemon(self, message: FromAgent) -> None:
        """Say something to the daemon in the session that the agent believes in."""
        session = self._agents
        if session is not None:
            self._send(session, lambda: self._arrive_at_daemon(session, message), is_up=True)

    def to_agent(self, message: ToAgent) -> None:
        """Say something to the agent in the session that the daemon believes in."""
        session = self._daemons
        if session is not None:
            self._send(session, lambda: self._arrive_at_agent(session, message), is_up=False)

    def _send(self, session: _Session, deliver: Callable[[], None], *, is_up: bool) -> None:
        if session.is_cut:
            return
        now = self._engine.now
        if self._plan.is_cut(now):
            self.cut()
            return
        times = 2 if self._plan.is_doubled(now) else 1
        for _ in range(times):
            at = max(session.arrives_at[is_up], now + self._plan.latency_s(now))
            session.arrives_at[is_up] = at
            self._engine.at(at, deliver)

    def _arrive_at_daemon(self, session: _Session, message: FromAgent) -> None:
        if session.is_cut or not self._daemon.is_up:
            return
        if isinstance(message, Register) and self._daemons is not session:
            if self._daemons is not None:  # a second session of the site ends the first
                self._daemons = None
                self._daemon.lost(self)
            self._daemons = session
        if self._daemons is session:
            self._daemon.receive(self, message)

    def _arrive_at_agent(self, session: _Session, message: ToAgent) -> None:
        if not session.is_cut and self._agents is session and self._agent.is_up:
            self._agent.receive(message)
