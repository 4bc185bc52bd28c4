"""The daemon's end of the agents' link: all sessions, and what they bring carried on.

No I/O: a session's stream is a `AgentStream` (`streams` has those of gRPC), and all decisions
about one are the session's (`session`). What agents tell goes through the pump; pings, key-values
and logs do not change the core's state and are answered at the desk (`desk`).
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Protocol

import structlog

from koala.core.model.actions import Wanted
from koala.core.model.events import SiteDisconnected, SiteReported
from koala.core.model.values import Instant, Seconds, SiteName, UserName
from koala.core.scheduler import Scheduler
from koala.daemon.agents import reports
from koala.daemon.agents.duplicate_agents import WORDS, DuplicateAgents
from koala.daemon.agents.progress_reports import ProgressGatherer
from koala.daemon.agents.replica_reports import ReplicaReports
from koala.daemon.agents.session import (
    Allowlist,
    DeliverMessage,
    EndSession,
    JoinSession,
    JournalForked,
    Output,
    RoundTripMeasured,
    Send,
    Session,
    Tidings,
    Timing,
)
from koala.daemon.clock import Clock
from koala.daemon.group_commit import BatchContext, GroupCommit
from koala.daemon.quotas import RateLimits
from koala.daemon.storage.records import JournalPosition
from koala.errors import KoalaError, SpecError
from koala.protocol import from_agent, to_agent
from koala.protocol.from_agent import (
    ClaimNews,
    FileNews,
    ProgressNews,
    Registration,
    SiteNews,
    SiteWatermark,
)
from koala.wire.v1 import link_pb2 as pb

SESSIONS_MAX = 2_000
SESSIONS_OF_SITE_MAX = 4
"""Streams that one site has open, whether it has registered on them or not: the newest. An agent
has one, and those of its connections that died unnoticed."""
FLOOD_REST_S = 60.0
REGISTRATIONS_AT_ONCE = 60
REGISTRATIONS_PER_S = 1.0
"""Of one site, and as often it may say that it has other processors: each is kept in the journal
with all the site's facts, and has the tries of all jobs with a deadline counted anew."""
RTT_NEWS_RATIO = 2.0  # a round trip changed by that much is told to the core without a report

log = structlog.get_logger()


@dataclass(frozen=True, slots=True, kw_only=True)
class LinkCallbacks:
    """What the roster needs of others: messages of what is wanted, and who answers the rest."""

    messages: Callable[[Wanted], Iterable[pb.ToAgent]]
    relay: Callable[[], str]
    answer: Callable[[SiteName, Tidings], bool]
    lose: Callable[[SiteName], None]
    mark: Callable[[], JournalPosition] = JournalPosition
    sealed: Callable[[SiteName, JournalPosition], SiteWatermark] | None = None
    forked: Callable[[SiteName, SiteWatermark], None] = lambda _site, _mark: None


class AgentStream(Protocol):
    """One stream to an agent."""

    @property
    def is_over(self) -> bool:
        """Nothing more is sent."""

    def put(self, lot: Sequence[pb.ToAgent]) -> bool:
        """Send these, all or none, in order; False when the agent does not read."""

    def end(self) -> None:
        """End the stream; what was put before still goes out. Then `left` is called."""


class AgentConnection:
    """One stream and its session."""

    def __init__(self, number: int, session: Session, line: AgentStream, peer: str) -> None:
        self.number = number
        self.session = session
        self.line = line
        self.peer = peer
        self.site: SiteName | None = None  # from Join on; stays when the session is over
        self.told_rtt_s: Seconds = 0.0
        self.report: SiteNews | None = None  # the last one of the site
        self.told_mark = JournalPosition()
        self.reason = "the stream ended"
        self.reports = 0  # that the pump has not settled yet
        self.on_settled: Callable[[], None] = lambda: None

    @property
    def opener(self) -> SiteName | int:
        """The site that has proved to be at the other end; without a proof nobody but this."""
        bound_to = self.session.bound_to
        return self.number if bound_to is None else bound_to


class AgentRegistry:
    """All sessions; `send` puts a message into the live one of a site."""

    def __init__(
        self,
        scheduler: Scheduler,
        pump: GroupCommit,
        clock: Clock,
        *,
        guests: Allowlist,
        timing: Timing,
        sites_max: int = SESSIONS_MAX,
    ) -> None:
        self.sessions: dict[SiteName, AgentConnection] = {}
        self._scheduler = scheduler
        self._pump = pump
        self._clock = clock
        self._guests = guests
        self._timing = timing
        self._sites_max = sites_max
        self._resting: dict[SiteName, Instant] = {}  # sites that flooded, until then
        self._registrations = RateLimits[SiteName](REGISTRATIONS_PER_S, burst=REGISTRATIONS_AT_ONCE)
        self._contention = DuplicateAgents()
        self.floods = 0
        self._links: LinkCallbacks | None = None
        self._connections: dict[int, AgentConnection] = {}
        # Those that are not over, by site; without a proof of a site each by itself.
        self._open: dict[SiteName | int, dict[int, AgentConnection]] = {}
        self._gathering = ProgressGatherer()
        self._holdings = ReplicaReports()
        self._count = 0
        self._closed_for: str | None = None

    def serve(self, links: LinkCallbacks) -> None:
        """From now on sessions can be taken."""
        self._links = links

    @property
    def owners(self) -> Mapping[SiteName, UserName | None]:
        """The sites that the configuration lists, with their owners."""
        return self._guests.sites

    def send(self, site: SiteName, message: pb.ToAgent) -> None:
        """Put it into the site's live session; dropped when there is none."""
        connection = self.sessions.get(site)
        if connection is not None and connection.session.is_live:
            self._carry_out(connection, [Send((message,))])

    def is_live(self, site: SiteName) -> bool:
        """Whether the site has a live session."""
        connection = self.sessions.get(site)
        return connection is not None and connection.session.is_live

    def trouble(self, site: SiteName) -> str:
        """That agents contend for the site, or why it says that it takes no new claims; empty for
        neither, or when it is away."""
        if self._contention.is_contended(site, self._clock.now()):
            again = "its sessions replace each other again and again"
            return f"{again}, as when {WORDS}: stop one of them"
        connection = self.sessions.get(site)
        report = None if connection is None else connection.report
        return "" if report is None else report.trouble

    def refuse(self, connection: AgentConnection, reason: str) -> None:
        """End one session, and not in friendship."""
        self._carry_out(connection, connection.session.close(reason, is_rejected=True))

    def flooded(self, connection: AgentConnection, reason: str) -> None:
        """It goes on saying more than it may: cut, and not heard again for a while."""
        self.floods += 1
        if connection.session.bound_to is not None:
            self._resting[connection.session.bound_to] = self._clock.now() + FLOOD_REST_S
        self.refuse(connection, reason)

    def cut(self, site: SiteName, reason: str) -> None:
        """End whatever this site has open."""
        for connection in tuple(self._connections.values()):
            if connection.session.bound_to == site:
                self.refuse(connection, reason)

    def close(self, reason: str) -> None:
        """Say goodbye to all; jobs run on."""
        self._closed_for = reason
        for connection in tuple(self._connections.values()):
            self._carry_out(connection, connection.session.close(reason))

    # --- streams ----------------------------------------------------------------------------------

    def opened(
        self, line: AgentStream, peer: str, *, bound_to: SiteName | None = None
    ) -> AgentConnection:
        """An agent has opened a stream; it may be refused at once. `bound_to` is the site that it
        has proved to be."""
        self._count += 1
        now = self._clock.now()
        session = Session(self._guests, self._timing, now=now, bound_to=bound_to)
        connection = AgentConnection(self._count, session, line, peer)
        self._connections[connection.number] = connection
        own = self._open.setdefault(connection.opener, {})
        own[connection.number] = connection
        if len(own) > SESSIONS_OF_SITE_MAX:
            oldest = next(iter(own.values()))
            reason = f"{SESSIONS_OF_SITE_MAX} newer streams of {bound_to} are open"
            self._forget(oldest)
            self.refuse(oldest, reason)
        if self._closed_for is not None:
            self._carry_out(connection, session.close(self._closed_for))
        elif len(self._open) > self._sites_max:
            reason = f"{self._sites_max} sessions are open: allowed are no more (limits.sites)"
            self._carry_out(connection, session.close(reason, is_rejected=True))
        elif bound_to is not None and self._resting.get(bound_to, now) > now:
            left_s = self._resting[bound_to] - now
            reason = f"{bound_to} has flooded this daemon: it is heard again in {left_s:.0f} s"
            self._carry_out(connection, session.close(reason, is_rejected=True))
        return connection

    def heard(self, connection: AgentConnection, message: pb.FromAgent) -> None:
        """The agent said this."""
        session = connection.session
        try:
            news = from_agent.read(message)
        except SpecError as error:
            outputs = session.misunderstood(str(error))
        else:
            size_bytes = 0 if session.is_live else message.ByteSize()
            outputs = [] if news is None else session.receive(news, self._clock.now(), size_bytes)
        self._carry_out(connection, outputs)

    def woke(self, connection: AgentConnection) -> None:
        """The session's `wake_at` has come."""
        self._carry_out(connection, connection.session.wake(self._clock.now()))

    def left(self, connection: AgentConnection) -> None:
        """The stream is over, whatever ended it."""
        del self._connections[connection.number]
        self._forget(connection)
        connection.session.close(connection.reason)
        site = connection.site
        if site is None or self.sessions.get(site) is not connection:
            return
        del self.sessions[site]
        log.info("site.session_ended", site=site, reason=connection.reason)
        if self._links is not None:
            self._links.lose(site)
        self._holdings.begin(site)
        self._pump.post(lambda turn: turn.emit(SiteDisconnected(site=site)))

    def _forget(self, connection: AgentConnection) -> None:
        """It is not open any more."""
        own = self._open.get(connection.opener, {})
        if own.pop(connection.number, None) is not None and not own:
            del self._open[connection.opener]

    # --- the sessions' outputs --------------------------------------------------------------------

    def _carry_out(self, connection: AgentConnection, outputs: Iterable[Output]) -> None:
        for output in outputs:
            match output:
                case Send(messages):
                    self._add_mark(connection, messages)
                    line = connection.line
                    if not line.put(messages) and not line.is_over:
                        connection.reason = "the agent does not read"
                        line.end()
                case JoinSession():
                    self._join(connection, output)
                case DeliverMessage(news):
                    self._hear(connection, news)
                case RoundTripMeasured(rtt_s):
                    self._measure(connection, rtt_s)
                case JournalForked(site=site, mark=mark):
                    if self._links is not None:
                        self._links.forked(site, mark)
                case EndSession(reason=reason, is_fault=is_fault):
                    connection.reason = reason
                    connection.line.end()
                    say = log.warning if is_fault else log.info
                    say("session.ended", site=connection.site, peer=connection.peer, reason=reason)

    def _add_mark(self, connection: AgentConnection, messages: Sequence[pb.ToAgent]) -> None:
        """A live session hears of the newest committed row with the first message after it."""
        links, site = self._links, connection.site
        if links is None or links.sealed is None or site is None or not connection.session.is_live:
            return
        mark = links.mark()
        if mark != connection.told_mark:
            connection.told_mark = mark
            to_agent.with_mark(messages[0], links.sealed(site, mark))

    def _join(self, connection: AgentConnection, join: JoinSession) -> None:
        """The newest session of a site wins; the core takes the inventory in one turn."""
        registration = join.registration
        site = registration.site
        before = self.sessions.get(site)
        is_replacing = before is not None and before.session.site is not None
        if is_replacing and (objection := self._contention.objection(site, self._clock.now())):
            self.refuse(connection, objection)
            return
        if not self._may_register(connection):
            allowed = f"allowed is once in {1 / REGISTRATIONS_PER_S:g} s in the long run"
            self.refuse(connection, f"{site} registers again and again: {allowed}")
            return
        owner = self._guests.sites.get(site)
        if owner is not None:
            registration = replace(registration, facts=replace(registration.facts, owner=owner))
        connection.site = site
        self.sessions[site] = connection
        if before is not None:
            reason = f"a newer session of {site} from {connection.peer}"
            if is_replacing:
                self._contention.note(site, self._clock.now())
            self._carry_out(before, before.session.close(reason, is_rejected=True))
        log.info(
            "site.registered",
            site=site,
            peer=connection.peer,
            version=registration.version,
            processors=registration.facts.processors,
            inventory=len(join.inventory),
        )

        def take_in(turn: BatchContext) -> None:
            for event in reports.of_registration(
                registration, join.inventory, turn.scheduler, self._holdings, turn.now
            ):
                turn.emit(event)

        def welcome(_: None, error: KoalaError | None) -> None:
            assert error is None, error
            self._welcome(connection, registration, join.inventory)

        self._pump.post(take_in, welcome)

    def _welcome(
        self, connection: AgentConnection, registration: Registration, inventory: Sequence[Tidings]
    ) -> None:
        """The inventory is durable: all that is wanted, of this state, in one piece."""
        assert self._links is not None
        site, protocol = registration.site, registration.spoken
        assert protocol is not None
        parameters = self._scheduler.parameters
        now = self._clock.now()
        messages = [
            to_agent.welcome(
                epoch=self._scheduler.epoch,
                protocol=protocol,
                leases=(parameters.hold_lease_s, parameters.run_lease_s, parameters.kill_s),
                now=now,
                relay=self._links.relay(),
            ),
            *self._links.messages(self._scheduler.wanted(site)),
        ]
        self._carry_out(connection, connection.session.join(messages, now))
        for news in inventory:
            if isinstance(news, ClaimNews):
                if news.end is not None and news.claim not in self._scheduler.ledger:
                    self.send(site, to_agent.acknowledge(news.claim))
            else:
                self._links.answer(site, news)

    def _may_register(self, connection: AgentConnection) -> bool:
        """Whether the site has its turn to say what it is; it is taken."""
        site, now = connection.session.bound_to, self._clock.now()
        if site is None:
            return True
        bucket = self._registrations.of(site, now)
        if bucket.wait_s(now) > 0:
            return False
        bucket.consume(1)
        return True

    def _hear(self, connection: AgentConnection, news: Tidings) -> None:
        """A report changes the core; anything else is answered here."""
        site = connection.site
        assert site is not None
        assert self._links is not None
        if self._links.answer(site, news):
            return
        if isinstance(news, SiteNews):
            connection.report = news
            connection.told_rtt_s = connection.session.rtt_s or 0.0
            known = self._scheduler.sites.get(site)
            is_other = known is not None and news.processors not in (0, known.facts.processors)
            if is_other and not self._may_register(connection):
                news = replace(news, processors=0)  # its next report may say it

        def take_in(turn: BatchContext) -> bool:
            is_known = not isinstance(news, ClaimNews) or news.claim in turn.scheduler.ledger
            self._take_in(connection, site, news, turn)
            return is_known

        def answer(is_known: bool, _: KoalaError | None) -> None:  # noqa: FBT001 - the pump's form
            connection.reports -= 1
            connection.on_settled()
            if isinstance(news, ClaimNews) and not is_known:
                # Its end is well; its life is not wanted.
                is_gone = news.end is not None
                self.send(site, (to_agent.acknowledge if is_gone else to_agent.stop)(news.claim))

        connection.reports += 1
        self._pump.post(take_in, answer)

    def _take_in(
        self, connection: AgentConnection, site: SiteName, news: Tidings, turn: BatchContext
    ) -> None:
        """In the pump's turn: what a report tells the core."""
        scheduler = turn.scheduler
        match news:
            case ProgressNews():
                reported = self._gathering.take(news, site, scheduler)
                if reported is not None:
                    turn.emit(reported)
            case FileNews():
                objection = self._holdings.objection(news, site, scheduler)
                if objection:
                    log.warning("file.not_counted", site=site, file=news.file, reason=objection)
                for event in self._holdings.take(news, site, scheduler):
                    turn.emit(event)
            case _:
                if isinstance(news, ClaimNews) and reports.is_foreign(news, site, scheduler):
                    log.warning("claim.foreign", site=site, claim=news.claim)
                rtt_s = connection.told_rtt_s
                for event in reports.of_news(news, site, scheduler, rtt_s=rtt_s, now=turn.now):
                    turn.emit(event)

    def _measure(self, connection: AgentConnection, rtt_s: Seconds) -> None:
        """A round trip much longer than the core knows is told: leads are counted from it."""
        site, report, told_s = connection.site, connection.report, connection.told_rtt_s
        if site is None or report is None or rtt_s <= RTT_NEWS_RATIO * max(told_s, 0.005):
            return
        connection.told_rtt_s = rtt_s
        event = SiteReported(
            site=site,
            idle=report.idle,
            through=report.through,
            rtt_s=rtt_s,
            local=report.local_processors,
        )
        self._pump.post(lambda turn: turn.emit(event))
