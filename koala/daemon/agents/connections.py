"""Connections of agents, and the newest of each site, into which messages are sent."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

from koala.common.protocol import codec
from koala.common.protocol.messages import SiteFigures, ToAgent
from koala.common.wire.v1 import link_pb2 as pb
from koala.core.model.values import Instant, Seconds, SiteName
from koala.daemon.agents.session import Session
from koala.daemon.storage.records import JournalPosition
from koala.daemon.storage.watermark import Watermarks


class AgentStream(Protocol):
    """One stream to an agent."""

    @property
    def has_ended(self) -> bool:
        """True when nothing more is sent."""

    def put(self, batch: Sequence[pb.ToAgent]) -> bool:
        """Send all of these messages in order, or none; False when the agent does not read."""

    def end(self) -> None:
        """End the stream after the messages that are queued; `detach` is called then."""

    def report_committed(self) -> None:
        """Go on reading: a report of the agent was committed."""


class AgentConnection:
    """One stream to an agent, and its session."""

    def __init__(
        self,
        number: int,
        session: Session,
        stream: AgentStream,
        peer: str,
        watermarks: Watermarks,
    ) -> None:
        self.number = number
        self.session = session
        self.stream = stream
        self.peer = peer
        self.site: SiteName | None = None  # set by Join; kept when the session is over
        self.reported_rtt_s: Seconds = 0.0
        self.report: SiteFigures | None = None  # the site's latest
        self.reason = "the stream ended"
        self.reports = 0  # not yet committed by the event loop
        self._watermarks = watermarks
        self._sent_watermark = JournalPosition()

    @property
    def opener(self) -> SiteName | int:
        """Authenticated site at the other end; the connection's own number without one."""
        bound_to = self.session.bound_to
        return self.number if bound_to is None else bound_to

    def send(self, messages: Sequence[ToAgent]) -> None:
        """Send messages together; the first has the journal's watermark, if that has moved."""
        encoded = [codec.TO_AGENT.encode(message) for message in messages]
        mark = self._watermarks.newest()
        if self.site is not None and self.session.is_live and mark != self._sent_watermark:
            self._sent_watermark = mark
            codec.set_watermark(encoded[0], self._watermarks.sign(self.site, mark))
        if not self.stream.put(encoded) and not self.stream.has_ended:
            self.reason = "the agent does not read"
            self.stream.end()


class SiteSessions:
    """The newest connection of each site that has registered."""

    def __init__(self, watermarks: Watermarks) -> None:
        self.watermarks = watermarks
        self._by_site: dict[SiteName, AgentConnection] = {}

    def __len__(self) -> int:
        return len(self._by_site)

    def of(self, site: SiteName) -> AgentConnection | None:
        """Return a site's connection."""
        return self._by_site.get(site)

    def put(self, site: SiteName, connection: AgentConnection) -> None:
        """Make a connection the newest of its site."""
        self._by_site[site] = connection

    def remove(self, site: SiteName, connection: AgentConnection) -> bool:
        """Remove a connection; False if a newer one has replaced it."""
        if self._by_site.get(site) is not connection:
            return False
        del self._by_site[site]
        return True

    def send(self, site: SiteName, message: ToAgent) -> None:
        """Send a message in the site's live session; drop it when there is none."""
        connection = self._by_site.get(site)
        if connection is not None and connection.session.is_live:
            connection.send((message,))

    def is_live(self, site: SiteName) -> bool:
        """Return True when the site has a live session."""
        connection = self._by_site.get(site)
        return connection is not None and connection.session.is_live

    def is_heard(self, site: SiteName, now: Instant) -> bool:
        """Return True when the site's live session had a message within the last two beats."""
        connection = self._by_site.get(site)
        return connection is not None and connection.session.is_heard(now)
