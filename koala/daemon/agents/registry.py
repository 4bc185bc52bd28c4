"""Registry of connected agents: carries out the outputs of their sessions.

No I/O: a session's stream is an `AgentStream` (`streams` has those of gRPC), and `session` makes
all decisions about one session. Reports go through the event loop. Pings, key-values and logs do
not change the core's state; `starter_requests` answers them.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace

from koala.common.protocol import codec
from koala.common.protocol.messages import (
    Acknowledge,
    AgentReport,
    Facts,
    FileFound,
    FileRemoved,
    Progress,
    Register,
    Report,
    SiteFigures,
    Stop,
    ToAgent,
    Watermark,
    Welcome,
)
from koala.common.protocol.versions import PROTOCOL
from koala.common.runtime.clock import Clock
from koala.common.runtime.structured_log import get_logger
from koala.common.runtime.token_bucket import RateLimits
from koala.common.wire.v1 import link_pb2 as pb
from koala.core.model.actions import Wanted
from koala.core.model.events import SiteDisconnected
from koala.core.model.values import Instant, Seconds, SiteName, UserName
from koala.core.scheduler import Scheduler
from koala.daemon.agents import reports
from koala.daemon.agents.connections import AgentConnection, AgentStream, SiteSessions
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
    Timing,
)
from koala.daemon.files.additions import Additions
from koala.daemon.loop.group_commit import BatchContext, GroupCommit
from koala.errors import KoalaError, SpecError
from koala.views.waiting import NO_QUEUE, SiteQueue

SESSIONS_MAX = 2_000
SESSIONS_OF_SITE_MAX = 4
"""Open streams of one site, registered or not; the oldest is closed beyond that. An agent has one,
and perhaps some of connections that died unnoticed."""
FLOOD_BLOCK_S = 60.0
REGISTRATIONS_AT_ONCE = 60
REGISTRATIONS_PER_S = 1.0
"""Rate limit of one site's registrations and of its changes of processors. Each is journaled with
all the site's facts, and recomputes the tries of all jobs with a deadline."""
RTT_NEWS_RATIO = 2.0
"""A round trip that grew or shrank by so much is reported to the core at once."""
RTT_CHANGE_MIN_S = 0.005  # a smaller change is not passed on

log = get_logger()


@dataclass(frozen=True, slots=True, kw_only=True)
class LinkCallbacks:
    """Functions of other parts of the daemon that the registry calls.

    `messages` renders the wanted state; `answer` handles requests and returns False for reports;
    `additions` follows the files that users add;
    `session_ended` is called when a site's session has ended.
    """

    messages: Callable[[Wanted], Iterable[ToAgent]]
    relay: Callable[[], str]
    answer: Callable[[SiteName, AgentReport], bool]
    additions: Additions
    session_ended: Callable[[SiteName], None]
    forked: Callable[[SiteName, Watermark], None]


class AgentRegistry:
    """All connections: accepts streams, and carries out the outputs of their sessions."""

    def __init__(
        self,
        scheduler: Scheduler,
        event_loop: GroupCommit,
        clock: Clock,
        *,
        sessions: SiteSessions,
        links: LinkCallbacks,
        allowlist: Allowlist,
        timing: Timing,
        sites_max: int = SESSIONS_MAX,
    ) -> None:
        self._sessions = sessions
        self._scheduler = scheduler
        self._event_loop = event_loop
        self._clock = clock
        self._allowlist = allowlist
        self._timing = timing
        self._sites_max = sites_max
        self._blocked_until: dict[SiteName, Instant] = {}  # sites that flooded the daemon
        self._registrations = RateLimits[SiteName](REGISTRATIONS_PER_S, burst=REGISTRATIONS_AT_ONCE)
        self._duplicate_agents = DuplicateAgents()
        self.floods = 0
        self._links = links
        self._connections: dict[int, AgentConnection] = {}
        # Connections that are not over, by site; unauthenticated ones each by themselves.
        self._open: dict[SiteName | int, dict[int, AgentConnection]] = {}
        self._progress_reports = ProgressGatherer()
        self._replica_reports = ReplicaReports()
        self._count = 0
        self._closed_for: str | None = None
        self._versions: dict[SiteName, str] = {}
        self._facts: dict[SiteName, Facts] = {}
        self._queues: dict[SiteName, tuple[SiteFigures, SiteQueue]] = {}

    @property
    def owners(self) -> Mapping[SiteName, UserName | None]:
        """Sites that may register, with their owners."""
        return self._allowlist.sites

    def trouble(self, site: SiteName) -> str:
        """Return the problem of a site, for people: two agents contend for it, or it takes no new
        claims.

        Empty when there is none, or when the site is away.
        """
        if self._duplicate_agents.is_contended(site, self._clock.now()):
            again = "its sessions replace each other again and again"
            return f"{again}, as when {WORDS}: stop one of them"
        figures = self._figures(site)
        return "" if figures is None else figures.trouble

    def why_idle(self, site: SiteName) -> str:
        """Return why no more processors of a site are idle; empty where all are, or nobody says."""
        figures = self._figures(site)
        return "" if figures is None else figures.why_idle

    def commands(self, site: SiteName) -> str:
        """Return how many commands were run at a site's batch system in a minute, in words."""
        figures = self._figures(site)
        return "" if figures is None else figures.commands

    def version(self, site: SiteName) -> str | None:
        """Return the version of the software of a site's agent; None while it is not connected."""
        return None if self._sessions.of(site) is None else self._versions.get(site)

    def queue(self, site: SiteName) -> SiteQueue:
        """Return what a site tells of its local queue, by its newest report; nothing while it is
        away."""
        figures = self._figures(site)
        if figures is None:
            return NO_QUEUE
        known = self._queues.get(site)
        if known is None or known[0] is not figures:
            facts = self._facts.get(site)
            queue = SiteQueue.of(figures, system="" if facts is None else facts.system)
            known = self._queues[site] = (figures, queue)
        return known[1]

    def facts(self, site: SiteName) -> Facts | None:
        """Return what a site's agent says of it; None while it is not connected."""
        return None if self._sessions.of(site) is None else self._facts.get(site)

    def _figures(self, site: SiteName) -> SiteFigures | None:
        """Return a site's newest figures; None while it is away, or has told none."""
        connection = self._sessions.of(site)
        return None if connection is None else connection.report

    def refuse(self, connection: AgentConnection, reason: str) -> None:
        """Reject one session and end it."""
        self._carry_out(connection, connection.session.close(reason, is_rejected=True))

    def block_flood(self, connection: AgentConnection, reason: str) -> None:
        """Reject a session that exceeds its rate limit, and block its site for a while."""
        self.floods += 1
        site = connection.session.bound_to
        if site is not None:
            self._blocked_until[site] = self._clock.now() + FLOOD_BLOCK_S
        self.refuse(connection, reason)

    def disconnect(self, site: SiteName, reason: str) -> None:
        """Reject all open sessions of a site."""
        for connection in tuple(self._connections.values()):
            if connection.session.bound_to == site:
                self.refuse(connection, reason)

    def close(self, reason: str) -> None:
        """End all sessions by Goodbye; jobs run on."""
        self._closed_for = reason
        for connection in tuple(self._connections.values()):
            self._carry_out(connection, connection.session.close(reason))

    # --- streams ----------------------------------------------------------------------------------

    def accept(
        self, stream: AgentStream, peer: str, *, bound_to: SiteName | None = None
    ) -> AgentConnection:
        """Accept a new stream, or reject it at once; `bound_to` is its authenticated site."""
        self._count += 1
        now = self._clock.now()
        session = Session(self._allowlist, self._timing, now=now, bound_to=bound_to)
        connection = AgentConnection(self._count, session, stream, peer, self._sessions.watermarks)
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
            reason = f"too many sessions (expected at most {self._sites_max}: limits.sites)"
            self._carry_out(connection, session.close(reason, is_rejected=True))
        elif bound_to is not None and self._blocked_until.get(bound_to, now) > now:
            left_s = self._blocked_until[bound_to] - now
            reason = f"{bound_to} has flooded this daemon: it is heard again in {left_s:.0f} s"
            self._carry_out(connection, session.close(reason, is_rejected=True))
        return connection

    def receive(self, connection: AgentConnection, message: pb.FromAgent) -> None:
        """Handle a message of an agent."""
        session = connection.session
        try:
            decoded = codec.FROM_AGENT.decode(message)
        except SpecError as error:
            outputs = session.reject_message(str(error))
        else:
            size_bytes = 0 if session.is_live else message.ByteSize()
            now = self._clock.now()
            outputs = [] if decoded is None else session.receive(decoded, now, size_bytes)
        self._carry_out(connection, outputs)

    def wake(self, connection: AgentConnection) -> None:
        """Run a session's timer: its `wake_at` has come."""
        self._carry_out(connection, connection.session.wake(self._clock.now()))

    def detach(self, connection: AgentConnection) -> None:
        """Remove a connection whose stream has ended, for whatever reason."""
        del self._connections[connection.number]
        self._forget(connection)
        connection.session.close(connection.reason)
        site = connection.site
        if site is None or not self._sessions.remove(site, connection):
            return
        log.info("site.session_ended", site=site, reason=connection.reason)
        self._links.session_ended(site)
        self._replica_reports.reset(site)
        self._event_loop.post(lambda batch: batch.emit(SiteDisconnected(site=site)))

    def _forget(self, connection: AgentConnection) -> None:
        """Remove a connection from those that are open."""
        own = self._open.get(connection.opener, {})
        if own.pop(connection.number, None) is not None and not own:
            del self._open[connection.opener]

    # --- the sessions' outputs --------------------------------------------------------------------

    def _carry_out(self, connection: AgentConnection, outputs: Iterable[Output]) -> None:
        for output in outputs:
            match output:
                case Send(messages):
                    connection.send(messages)
                case JoinSession():
                    self._join(connection, output)
                case DeliverMessage(report):
                    self._handle(connection, report)
                case RoundTripMeasured(rtt_s):
                    self._measure(connection, rtt_s)
                case JournalForked(site=site, mark=mark):
                    self._links.forked(site, mark)
                case EndSession(reason=reason, is_fault=is_fault):
                    connection.reason = reason
                    connection.stream.end()
                    emit = log.warning if is_fault else log.info
                    emit("session.ended", site=connection.site, peer=connection.peer, reason=reason)

    def _join(self, connection: AgentConnection, join: JoinSession) -> None:
        """Join a session: the newest of a site wins; the inventory is handled in one batch."""
        registration = join.registration
        site = registration.site
        before = self._sessions.of(site)
        is_replacing = before is not None and before.session.site is not None
        now = self._clock.now()
        if is_replacing and (objection := self._duplicate_agents.objection(site, now)):
            self.refuse(connection, objection)
            return
        if not self._consume_registration_token(connection):
            allowed = f"expected once in {1 / REGISTRATIONS_PER_S:g} s in the long run"
            self.refuse(connection, f"{site} registers again and again ({allowed})")
            return
        owner = self._allowlist.sites.get(site)
        if owner is not None:
            registration = replace(registration, facts=replace(registration.facts, owner=owner))
        connection.site = site
        self._sessions.put(site, connection)
        self._versions[site] = registration.version
        self._facts[site] = registration.facts
        if before is not None:
            reason = f"a newer session of {site} from {connection.peer}"
            if is_replacing:
                self._duplicate_agents.note(site, now)
            self._carry_out(before, before.session.close(reason, is_rejected=True))
        log.info(
            "site.registered",
            site=site,
            peer=connection.peer,
            version=registration.version,
            processors=registration.facts.processors,
            inventory=len(join.inventory),
        )

        def handle_inventory(batch: BatchContext) -> None:
            for event in reports.registration_events(
                registration, join.inventory, batch.scheduler, self._replica_reports, batch.now
            ):
                batch.emit(event)

        def welcome(_: None, error: KoalaError | None) -> None:
            assert error is None, error
            self._welcome(connection, registration, join.inventory)

        self._event_loop.post(handle_inventory, welcome)

    def _welcome(
        self,
        connection: AgentConnection,
        registration: Register,
        inventory: Sequence[AgentReport],
    ) -> None:
        """Send Welcome and the wanted state of one instant; the inventory is durable now."""
        site = registration.site
        parameters = self._scheduler.parameters
        now = self._clock.now()
        messages = [
            Welcome(
                epoch=self._scheduler.epoch,
                protocol=PROTOCOL,
                hold_lease_s=parameters.hold_lease_s,
                run_lease_s=parameters.run_lease_s,
                kill_s=parameters.kill_s,
                now=now,
                relay=self._links.relay(),
            ),
            *self._links.messages(self._scheduler.wanted(site)),
            *self._links.additions.orders(site),
        ]
        self._carry_out(connection, connection.session.join(messages, now))
        for report in inventory:
            if isinstance(report, Report):
                if report.end is not None and report.claim not in self._scheduler.ledger:
                    self._sessions.send(site, Acknowledge(claim=report.claim))
            else:
                self._links.answer(site, report)
                self._links.additions.note(site, report, self._objection(site, report))

    def _objection(self, site: SiteName, report: AgentReport) -> str:
        """Return why a report of a file does not count; empty for any other."""
        if not isinstance(report, FileFound):
            return ""
        return self._replica_reports.objection(report, site, self._scheduler)

    def _consume_registration_token(self, connection: AgentConnection) -> bool:
        """Consume a registration token of the site; False when it registers too often."""
        site, now = connection.session.bound_to, self._clock.now()
        if site is None:
            return True
        bucket = self._registrations.of(site, now)
        if bucket.wait_s(now) > 0:
            return False
        bucket.consume(1)
        return True

    def _handle(self, connection: AgentConnection, report: AgentReport) -> None:
        """Answer a request, or post a report to the event loop."""
        site = connection.site
        assert site is not None
        if self._links.answer(site, report):
            return
        if isinstance(report, SiteFigures):
            connection.report = report
            connection.reported_rtt_s = connection.session.rtt_s or 0.0
            known = self._scheduler.sites.get(site)
            is_other = known is not None and reports.contradicts_facts(report, known.facts)
            if known and is_other and not self._consume_registration_token(connection):
                # Its next report repeats the change.
                facts = known.facts
                report = replace(report, processors=0, resources=facts.resources, gate=facts.gate)

        def handle_report(batch: BatchContext) -> bool:
            is_known = not isinstance(report, Report) or report.claim in batch.scheduler.ledger
            self._handle_report(connection, site, report, batch)
            return is_known

        def answer(is_known: bool, _: KoalaError | None) -> None:  # noqa: FBT001 - post's form
            connection.reports -= 1
            connection.stream.report_committed()
            self._links.additions.note(site, report, self._objection(site, report))
            if isinstance(report, Report) and not is_known:
                # Acknowledge the end of an unknown claim; stop one that still lives.
                is_gone = report.end is not None
                self._sessions.send(site, (Acknowledge if is_gone else Stop)(claim=report.claim))

        connection.reports += 1
        self._event_loop.post(handle_report, answer)

    def _handle_report(
        self, connection: AgentConnection, site: SiteName, report: AgentReport, batch: BatchContext
    ) -> None:
        """Emit the events of a report into a batch."""
        scheduler = batch.scheduler
        match report:
            case Progress():
                reported = self._progress_reports.add(report, site, scheduler)
                if reported is not None:
                    batch.emit(reported)
            case FileFound() | FileRemoved():
                objection = self._replica_reports.objection(report, site, scheduler)
                if objection:
                    log.warning("file.not_counted", site=site, file=report.file, reason=objection)
                for event in self._replica_reports.events_of(report, site, scheduler):
                    batch.emit(event)
            case _:
                if isinstance(report, Report) and reports.is_foreign(report, site, scheduler):
                    log.warning("claim.foreign", site=site, claim=report.claim)
                rtt_s = connection.reported_rtt_s
                for event in reports.report_events(
                    report, site, scheduler, rtt_s=rtt_s, now=batch.now
                ):
                    batch.emit(event)

    def _measure(self, connection: AgentConnection, rtt_s: Seconds) -> None:
        """Report a round trip that is far from the one from which the core derives leads."""
        site, report, known_s = connection.site, connection.report, connection.reported_rtt_s
        shorter_s, longer_s = sorted(max(value, RTT_CHANGE_MIN_S) for value in (known_s, rtt_s))
        if site is None or report is None or longer_s <= RTT_NEWS_RATIO * shorter_s:
            return
        connection.reported_rtt_s = rtt_s
        self._event_loop.post(
            lambda batch: batch.emit(
                reports.with_round_trip(report, batch.scheduler.sites[site], rtt_s, batch.now)
            )
        )
