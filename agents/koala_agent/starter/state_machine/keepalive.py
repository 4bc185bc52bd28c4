"""The starter's connection to its agent: when it dials, and when it pings the daemon."""

from __future__ import annotations

from koala_agent.starter.events import Dial, Send
from koala_agent.starter.messages import PingSent, to_message

TYPE_CHECKING = False
if TYPE_CHECKING:
    from koala_agent.starter.events import Action

PING_MAX_S = 60.0
"""The longest time between two pings, whatever the lease."""
PINGS_A_LEASE = 8
ALONE_PINGS = 3
"""After so many unanswered pings a program that is slowed down runs freely again, and the agent is
dialled again: a half-open connection looks as if the daemon were away."""
BURST = 5
"""Pings one after the other when it is adopted, to measure the daemon's clock."""
DIAL_MIN_S, DIAL_MAX_S = 0.1, 2.0
DIAL_LIMIT_S = 3.0
SILENCE_LEASES = 0.5
"""Part of the lease after which even a slow connection is dialled again."""


class Keepalive:
    """State of the connection; its methods return the actions to carry out. An answer takes up to
    `answer_s`, on a mailbox connection."""

    def __init__(self, now: float, answer_s: float = 0.0) -> None:
        self.is_connected = False
        self._answer_s = answer_s
        self._heard_at = now
        self._dial_at = now
        self._failures = 0
        self._pinged_at = self._ping_at = now
        self._burst = 0
        self._unanswered = 0  # pings on this connection since the last answer

    @property
    def wake_at(self) -> float:
        """The next instant at which `tick` is due."""
        return self._ping_at if self.is_connected else self._dial_at

    def connect(self, now: float) -> None:
        """Note that the connection is made."""
        self.is_connected = True
        self._heard_at = now
        self._failures = 0
        self._unanswered = 0

    def disconnect(self, now: float) -> None:
        """Note that the connection is lost, or could not be made; the back-off grows."""
        self.is_connected = False
        self._dial_at = now + min(DIAL_MAX_S, DIAL_MIN_S * 2.0 ** min(self._failures, 10))
        self._failures += 1

    def send(self, message: dict[str, object]) -> list[Action]:
        """Send a message if connected; otherwise the next hello has its contents."""
        return [Send(message=message)] if self.is_connected else []

    def ping(self, now: float, lease_s: float, *, burst: int = 0) -> list[Action]:
        """Send a ping now, and more right after its answer until a burst is complete."""
        self._burst = max(self._burst, burst)
        self._pinged_at = now
        self._ping_at = now + min(PING_MAX_S, lease_s / PINGS_A_LEASE)
        if not self.is_connected:
            return []
        self._unanswered += 1
        return [Send(message=to_message(PingSent(sent_at=now)))]

    def start_burst(self) -> None:
        """Send a ping after each of the next answers."""
        self._burst = BURST - 1

    def note_answer(self, now: float) -> None:
        """Note an answer."""
        self._unanswered = 0
        self._heard_at = now

    def continue_burst(self, now: float, lease_s: float) -> list[Action]:
        """Send the next ping of a burst."""
        if self._burst == 0:
            return []
        self._burst -= 1
        return self.ping(now, lease_s)

    def is_alone(self, now: float, answered_at: float) -> bool:
        """Return True when several pings in a row were not answered."""
        return now - answered_at > ALONE_PINGS * (self._ping_at - self._pinged_at)

    def tick(self, now: float, lease_s: float) -> list[Action]:
        """Return what is due: a ping, or another try to connect."""
        if self.is_connected and now >= self._ping_at:
            silence_s = min(self._answer_s, SILENCE_LEASES * lease_s)
            if self._unanswered < ALONE_PINGS or now < self._heard_at + silence_s:
                return self.ping(now, lease_s)
            self.is_connected = False
            self._dial_at = now
        if self.is_connected or now < self._dial_at:
            return []
        self._dial_at = now + max(DIAL_LIMIT_S, self._answer_s)
        return [Dial()]
