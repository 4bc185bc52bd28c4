"""Simulated connections: two ordered streams each, as in TCP.

Faults are cuts, delays and partitions, never reorderings:

- After a cut, messages are lost from some message on. Each end notices it in its own time or,
  half-open, never.
- A partition, of both directions or one, holds messages back until it is over.

So a message is lost, late, or repeated by its sender after a reconnection, and never overtaken.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Generic, TypeVar

from koala.core.model.values import Instant
from koala.lab.sim.engine import Engine
from tests.swarm.system.faults import FaultPlan

M = TypeVar("M")

NEAR = 0.05


class Network:
    """Partitions between parties, with their ends."""

    def __init__(self, engine: Engine, plan: FaultPlan) -> None:
        self.engine = engine
        self.plan = plan
        self._stuck: dict[tuple[str, str], Instant] = {}

    def hold_back(self, source: str, target: str, until: Instant) -> None:
        """Hold back messages from one to the other until that instant."""
        key = (source, target)
        self._stuck[key] = max(self._stuck.get(key, 0.0), until)

    def part(self, one: str, other: str, until: Instant) -> None:
        """Partition both directions."""
        self.hold_back(one, other, until)
        self.hold_back(other, one, until)

    def open_at(self, source: str, target: str) -> Instant:
        """Return the earliest instant at which the way is open."""
        return self._stuck.get((source, target), 0.0)

    @staticmethod
    def share(source: str, target: str) -> float:
        """Return the share of the latency between sites: a node is near its agent."""
        return NEAR if "node:" in source or "node:" in target else 1.0

    def is_open(self, one: str, other: str) -> bool:
        """True if both directions are open."""
        return max(self.open_at(one, other), self.open_at(other, one)) <= self.engine.now


class End(Generic[M]):
    """One end of a connection. `take` receives messages of the other end; `lost` is called once
    when this end notices the cut. Both are set by the owner, who guards his lives himself."""

    __slots__ = (
        "_arrives_at",
        "_other",
        "_pipe",
        "is_believed",
        "is_closing",
        "lost",
        "name",
        "take",
    )

    def __init__(self, pipe: Pipe[M], name: str) -> None:
        self.name = name
        self.is_believed = True  # by its owner
        self.is_closing = False
        self.take: Callable[[M], None] = lambda _message: None
        self.lost: Callable[[], None] = lambda: None
        self._pipe = pipe
        self._other: End[M] | None = None
        self._arrives_at: Instant = 0.0  # of the last message to the other end

    def send(self, message: M) -> None:
        """Send a message; it is lost when the connection is cut and this end does not know yet."""
        if self.is_believed and not self.is_closing:
            other = self._other
            assert other is not None
            self._pipe.carry(self, lambda: other.receive(message))

    def close(self) -> None:
        """Close this end; earlier messages still arrive."""
        if self.is_closing:
            return
        self.is_closing = True
        other = self._other
        assert other is not None
        self._pipe.carry(self, other.notice)
        self._pipe.forget_own(self)

    def reset(self) -> None:
        """Reset the connection, because its owner is gone or drops it; mostly the other end notices
        at once."""
        self.is_believed = False
        self._pipe.drop(self)

    def break_pipe(self) -> None:
        """Break the connection without a cause at either end."""
        self._pipe.cut()

    def receive(self, message: M) -> None:
        """Receive a message."""
        if self.is_believed:
            self.take(message)

    def notice(self) -> None:
        """Notice that no more messages come."""
        if self.is_believed:
            self.is_believed = False
            self.lost()


class Pipe(Generic[M]):
    """A connection from one named party to another."""

    __slots__ = ("_is_cut", "_network", "ends")

    def __init__(self, network: Network, dialler: str, listener: str) -> None:
        self.ends: tuple[End[M], End[M]] = (End(self, dialler), End(self, listener))
        self.ends[0]._other, self.ends[1]._other = self.ends[1], self.ends[0]
        self._network = network
        self._is_cut = False

    @property
    def is_cut(self) -> bool:
        """True if no message passes any more, whatever the ends know."""
        return self._is_cut

    def carry(self, end: End[M], deliver: Callable[[], None]) -> None:
        """Deliver a message to the other end, in order."""
        if self._is_cut:
            return
        network = self._network
        engine, plan = network.engine, network.plan
        now = engine.now
        if plan.strikes("cut", now):
            self.cut()
            return
        source = end.name
        target = self.ends[0].name if end is self.ends[1] else self.ends[1].name
        at = max(
            end._arrives_at,
            now + plan.latency_s(now) * network.share(source, target),
            network.open_at(source, target),
        )
        end._arrives_at = at

        def arrive() -> None:
            if not self._is_cut:
                deliver()

        engine.at(at, arrive)

    def forget_own(self, end: End[M]) -> None:
        """Drop messages to an end that has closed."""
        end.is_believed = False

    def drop(self, end: End[M]) -> None:
        """Remove one end: messages in transit are lost, and the other end is notified if the way is
        open."""
        if self._is_cut:
            return
        network = self._network
        engine, plan = network.engine, network.plan
        if plan.stream("death").random() < 0.2:
            self.cut()
            return
        self._is_cut = True
        other = self.ends[0] if end is self.ends[1] else self.ends[1]
        share = network.share(end.name, other.name)
        told_at = engine.now + plan.latency_s(engine.now) * share
        engine.at(max(told_at, network.open_at(end.name, other.name)), other.notice)

    def cut(self, *, is_silent: bool = False) -> None:
        """Cut the connection. Each end notices it in its own time; if `is_silent`, it is not
        notified."""
        if self._is_cut:
            return
        self._is_cut = True
        if is_silent:
            return
        network = self._network
        now = network.engine.now
        for end in self.ends:
            network.engine.after(network.plan.notice_s(now), end.notice)
