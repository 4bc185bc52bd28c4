"""Session with an agent, as a pure state machine: the daemon's end of the link.

    opened -> registering -> joining -> live -> over
              (inventory)    (the core handles it)      cut, silent, Goodbye: over from anywhere

No I/O and no clock. `receive`, `join` and `wake` return the outputs to carry out, in order.
`link.proto` defines the order of messages. Guarantees:

- Nothing of a session reaches the core before its inventory is complete. Then all of it does, at
  once: a cut in between changes nothing.
- Orders come after Welcome. The whole wanted state, of one state of the core, comes between
  Welcome and WantedEnd; that state includes all reports received before `join`.
- A session that is silent for `silence_s`, or sends a message that its state does not allow, ends.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from statistics import median_low
from typing import TypeAlias

from koala.common.protocol.messages import (
    AgentReport,
    Beat,
    FromAgent,
    Goodbye,
    InventoryEnd,
    Register,
    Reject,
    ToAgent,
    WantedEnd,
    Watermark,
)
from koala.common.protocol.versions import PROTOCOL
from koala.core.model.values import Instant, Seconds, SiteName, UserName
from koala.daemon.agents.site_facts import facts_of
from koala.daemon.storage.watermark import WatermarkVerdict

INVENTORY_MAX = 100_000
INVENTORY_BYTES_MAX = 64 * 2**20  # of messages, buffered until the inventory is complete
BEATS_MAX = 100  # remembered of an agent that sends messages but echoes no beat
HEARD_BEATS = 2  # without a message for longer, an agent is not heard
RTT_SAMPLES = 5  # the newest beats, whose median is the round trip


@dataclass(frozen=True, slots=True, kw_only=True)
class Timing:
    """Heartbeat interval, and the silence after which a session times out."""

    beat_s: Seconds = 2.0
    silence_s: Seconds = 15.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Allowlist:
    """Sites that may register: any when `is_open`, else the listed ones, with their owners.

    `verdict` compares an agent's watermark with the daemon's journal.
    """

    epoch: int
    sites: Mapping[SiteName, UserName | None]
    is_open: bool
    verdict: Callable[[SiteName, Watermark], WatermarkVerdict] = lambda _site, _mark: (
        WatermarkVerdict.SAME
    )


# Outputs ------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Send:
    """Send all of these messages in order, or none."""

    messages: Sequence[ToAgent]


@dataclass(frozen=True, slots=True, kw_only=True)
class JoinSession:
    """The inventory is complete: let the core handle it, then call `join`."""

    registration: Register
    inventory: Sequence[AgentReport]


@dataclass(frozen=True, slots=True)
class DeliverMessage:
    """Message of a live session, for the core or the request handler."""

    report: AgentReport


@dataclass(frozen=True, slots=True)
class RoundTripMeasured:
    """New estimate of the round trip, in seconds: a beat was echoed."""

    rtt_s: Seconds


@dataclass(frozen=True, slots=True, kw_only=True)
class JournalForked:
    """The agent holds orders that are missing in the daemon's journal; the daemon must stop."""

    site: SiteName
    mark: Watermark


@dataclass(frozen=True, slots=True, kw_only=True)
class EndSession:
    """The session is over; messages sent before it still go out."""

    reason: str
    is_fault: bool


Output: TypeAlias = (
    Send | JoinSession | DeliverMessage | RoundTripMeasured | JournalForked | EndSession
)

# States -------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Opened:
    """Stream on which nothing was received yet."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Registering:
    """Registered; the inventory is being received."""

    registration: Register
    inventory: list[AgentReport]


@dataclass(frozen=True, slots=True, kw_only=True)
class Joining:
    """The core is handling the inventory; `later` was received meanwhile."""

    registration: Register
    later: list[AgentReport]


@dataclass(frozen=True, slots=True)
class Live:
    """Both sides are in sync; changes go both ways."""

    registration: Register


@dataclass(frozen=True, slots=True)
class Over:
    """Final state."""


State: TypeAlias = Opened | Registering | Joining | Live | Over


class Session:
    """State machine of one stream."""

    def __init__(
        self,
        allowlist: Allowlist,
        timing: Timing,
        *,
        now: Instant,
        bound_to: SiteName | None = None,
    ) -> None:
        """`bound_to` is the authenticated site, the only one that may register."""
        self.state: State = Opened()
        self.bound_to = bound_to
        self.rtt_s: Seconds | None = None
        self._allowlist = allowlist
        self._timing = timing
        self._received_at = now
        self._beat_at = now
        self._round_trips: deque[Seconds] = deque(maxlen=RTT_SAMPLES)
        self._beats: dict[int, Instant] = {}  # not echoed yet, with when they were sent
        self._number = 0
        self._kept_bytes = 0

    @property
    def site(self) -> SiteName | None:
        """Registered site."""
        match self.state:
            case Registering() | Joining() | Live():
                return self.state.registration.site
            case Opened() | Over():
                return None

    @property
    def is_live(self) -> bool:
        """True when changes may be sent."""
        return isinstance(self.state, Live)

    def is_heard(self, now: Instant) -> bool:
        """Return True when it is live and the agent has echoed a beat, or said more, lately."""
        return self.is_live and now - self._received_at <= HEARD_BEATS * self._timing.beat_s

    @property
    def wake_at(self) -> Instant | None:
        """Instant at which `wake` must be called next."""
        match self.state:
            case Over():
                return None
            case Opened():
                return self._received_at + self._timing.silence_s
            case _:
                return min(self._beat_at, self._received_at + self._timing.silence_s)

    def receive(self, message: FromAgent, now: Instant, size_bytes: int = 0) -> list[Output]:
        """Handle a message of `size_bytes` bytes."""
        self._received_at = now
        self._kept_bytes += size_bytes
        if isinstance(self.state, Over):
            return []
        match message:
            case Goodbye(reason=reason):
                self.state = Over()
                return [EndSession(reason=f"the agent said goodbye: {reason}", is_fault=False)]
            case Register():
                return self._register(message)
            case Beat(number=number):
                return self._measure(number, now)
            case InventoryEnd():
                return self._complete()
            case _:
                return self._handle(message)

    def join(self, messages: Iterable[ToAgent], now: Instant) -> list[Output]:
        """Go live after the core has handled the inventory, by Welcome and the wanted state."""
        if not isinstance(self.state, Joining):
            return []
        later = self.state.later
        self.state = Live(self.state.registration)
        self._beat_at = now
        sent: list[Output] = [Send((*messages, WantedEnd())), *self._beat(now)]
        return [*sent, *(DeliverMessage(report) for report in later)]

    def wake(self, now: Instant) -> list[Output]:
        """Time out a silent session, or send a beat that is due."""
        if isinstance(self.state, Over):
            return []
        if now >= self._received_at + self._timing.silence_s:
            self.state = Over()
            reason = f"silent for {self._timing.silence_s:g} s"
            return [EndSession(reason=reason, is_fault=True)]
        if isinstance(self.state, Opened) or now < self._beat_at:
            return []
        return self._beat(now)

    def reject_message(self, reason: str) -> list[Output]:
        """End the session because of an invalid message."""
        return [] if isinstance(self.state, Over) else self._refuse(reason, is_final=False)

    def close(self, reason: str, *, is_rejected: bool = False) -> list[Output]:
        """End the session by Goodbye or Reject; jobs run on."""
        if isinstance(self.state, Over):
            return []
        self.state = Over()
        last = Reject(reason=reason, is_final=False) if is_rejected else Goodbye(reason=reason)
        return [Send((last,)), EndSession(reason=reason, is_fault=is_rejected)]

    # --- steps ------------------------------------------------------------------------------------

    def _register(self, registration: Register) -> list[Output]:
        allowlist = self._allowlist
        if not isinstance(self.state, Opened):
            return self._refuse("a second Register in one session", is_final=False)
        if registration.protocol != PROTOCOL:
            reason = (
                f"the agent speaks protocol {registration.protocol}"
                f" (version {registration.version or '?'}), this daemon {PROTOCOL}: install the"
                " same version of Koala at both"
            )
            return self._refuse(reason, is_final=True)
        if self.bound_to is not None and registration.site != self.bound_to:
            proved = f"the certificate shown is of site {self.bound_to}"
            return self._refuse(
                f"{proved}: it may not register as {registration.site!r}", is_final=True
            )
        if not allowlist.is_open and registration.site not in allowlist.sites:
            known = ", ".join(sorted(allowlist.sites)) or "none"
            reason = f"unknown site {registration.site!r}: the configuration lists {known}"
            return self._refuse(reason, is_final=True)
        site, owner = registration.site, allowlist.sites.get(registration.site)
        if owner is not None and not facts_of(registration.facts).admits(owner):
            return self._refuse(_owner_mismatch(owner, registration), is_final=True)
        seen = registration.epoch_seen
        if seen > allowlist.epoch:
            reason = f"the agent has served epoch {seen}, this is {allowlist.epoch}"
            return self._refuse(reason, is_final=False)
        mark = registration.mark
        if mark is not None and allowlist.verdict(site, mark) is WatermarkVerdict.BEHIND:
            reason = f"the agent's orders rest on event {mark.seq} of another journal than ours"
            forked = JournalForked(site=site, mark=mark)
            return [forked, *self._refuse(reason, is_final=False)]
        self.state = Registering(registration=registration, inventory=[])
        return []

    def _complete(self) -> list[Output]:
        state = self.state
        if not isinstance(state, Registering):
            return self._refuse("InventoryEnd at a wrong place", is_final=False)
        self.state = Joining(registration=state.registration, later=[])
        return [JoinSession(registration=state.registration, inventory=state.inventory)]

    def _handle(self, report: AgentReport) -> list[Output]:
        match self.state:
            case Registering(inventory=gathered) | Joining(later=gathered):
                gathered.append(report)
                if len(gathered) > INVENTORY_MAX:
                    return self._refuse(f"more than {INVENTORY_MAX} reports", is_final=False)
                if self._kept_bytes > INVENTORY_BYTES_MAX:
                    reason = f"an inventory of more than {INVENTORY_BYTES_MAX} bytes"
                    return self._refuse(reason, is_final=False)
                return []
            case Live():
                return [DeliverMessage(report)]
            case Opened() | Over():
                return self._refuse(f"{type(report).__name__} before Register", is_final=False)

    def _refuse(self, reason: str, *, is_final: bool) -> list[Output]:
        self.state = Over()
        rejection = Reject(reason=reason, is_final=is_final)
        return [Send((rejection,)), EndSession(reason=reason, is_fault=True)]

    def _beat(self, now: Instant) -> list[Output]:
        self._number += 1
        self._beat_at = now + self._timing.beat_s
        self._beats[self._number] = now
        if len(self._beats) > BEATS_MAX:
            del self._beats[next(iter(self._beats))]
        return [Send((Beat(number=self._number, sent_at=now),))]

    def _measure(self, number: int, now: Instant) -> list[Output]:
        sent_at = self._beats.get(number)
        if sent_at is None:
            return []
        self._beats = {n: at for n, at in self._beats.items() if n > number}
        self._round_trips.append(max(0.0, now - sent_at))
        # One late beat does not measure the network: leads also follow the round trip of their own
        # Arm. Of two the shorter counts, since the first beat meets an agent that still starts.
        self.rtt_s = median_low(self._round_trips)
        return [RoundTripMeasured(self.rtt_s)]


def _owner_mismatch(owner: UserName, registration: Register) -> str:
    """Return the reason to refuse a site that does not admit its configured owner: it would have no
    user."""
    facts = registration.facts
    takes = f"those of {facts.owner}" if facts.owner else f"those of its {len(facts.users)} users"
    return (
        f"site {registration.site} belongs to {owner} by this daemon's configuration, and its agent"
        f' takes only {takes} (expected accounts.user = "{owner}" in the agent\'s configuration)'
    )
