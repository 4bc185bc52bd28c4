"""A script for the starter's machine: events in, actions out. Instants are seconds of one made-up
clock."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from koala_agent.starter.events import (
    Connected,
    Fork,
    Open,
    Opened,
    Ready,
    Received,
    Send,
    Settings,
    Signal,
    Woken,
    WriteEnd,
)
from koala_agent.starter.state_machine.starter import StarterMachine

if TYPE_CHECKING:
    from koala_agent.starter.events import Action, Event

OFFSET_S = 1000.0
"""The daemon's time less ours."""


class StarterScript:
    """A starter with a lease of 60 s, a hold of 300 s and a run lease of 600 s."""

    def __init__(self, **changes: Any) -> None:
        settings = {
            "claim": "j1/1/0/1",
            "secret": "s",
            "nonce": "n",
            "processes": 1,
            "hold_s": 300.0,
            "hold_lease_s": 60.0,
            "run_lease_s": 600.0,
            "kill_s": 5.0,
        }
        self.machine = StarterMachine(
            Settings(**{**settings, **changes}), now=0.0, wall_offset_s=OFFSET_S
        )

    def tell(self, event: Event, at: float) -> list[Action]:
        return self.machine.handle(event, at)

    def hear(self, at: float, kind: str, **fields: object) -> list[Action]:
        """A message of the agent."""
        return self.tell(Received(message={"kind": kind, **fields}), at)

    def woken(self, at: float) -> list[Action]:
        return self.tell(Woken(), at)

    def adopted(self, at: float = 0.1) -> list[Action]:
        self.tell(Connected(), at)
        leases = {"hold_lease_s": 60.0, "run_lease_s": 600.0, "kill_s": 5.0}
        actions = self.hear(at, "adopted", **leases)
        return [*actions, *(self.tell(Ready(), at) if Fork() in actions else ())]

    def pong(self, at: float, sent_at: float) -> list[Action]:
        return self.hear(at, "pong", sent_at=sent_at, now=OFFSET_S + (at + sent_at) / 2)

    def arm(
        self,
        at: float,
        *,
        counter: int = 1,
        release_at: float = 0.0,
        late_s: float = 3.0,
        bundle: dict[str, object] | None = None,
    ) -> list[Action]:
        """T on our clock is `release_at`."""
        daemon_at = OFFSET_S + release_at
        bundle = bundle or {"x": 1}
        return self.hear(
            at, "arm", number=[1, counter], release_at=daemon_at, late_s=late_s, bundle=bundle
        )

    def release(self, at: float, *, counter: int = 1) -> list[Action]:
        return self.hear(at, "release", number=[1, counter])

    def running(self, **_ignored: object) -> None:
        self.adopted()
        self.arm(1.0, release_at=2.0)
        self.release(1.5)
        assert opens(self.woken(2.0))
        self.tell(Opened(at=2.0), 2.0)


def said(actions: list[Action]) -> list[str]:
    """The kinds of messages but pings, which are everywhere."""
    kinds = [str(action.message["kind"]) for action in actions if isinstance(action, Send)]
    return [kind for kind in kinds if kind != "ping"]


def opens(actions: list[Action]) -> bool:
    return any(isinstance(action, Open) for action in actions)


def ends(actions: list[Action]) -> bool:
    return any(isinstance(action, Signal) for action in actions)


def the_end(actions: list[Action]) -> dict[str, object]:
    (written,) = [action.end for action in actions if isinstance(action, WriteEnd)]
    return written
