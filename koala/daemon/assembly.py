"""The assembly of a daemon: its parts, built from the configuration by their constructors."""

from __future__ import annotations

import socket
from collections.abc import Callable, Coroutine, Sequence
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Any

import grpc

from koala.common.protocol.limits import REQUEST_BYTES_MAX
from koala.common.runtime.clock import unix_now
from koala.common.runtime.disk_space import DiskSpace
from koala.common.runtime.software import software_version
from koala.common.runtime.structured_log import get_logger
from koala.common.wire import connection_limits
from koala.common.wire.interceptors import Readable
from koala.common.wire.v1 import koala_pb2_grpc, link_pb2_grpc
from koala.core.digest import digest
from koala.core.model.actions import Action
from koala.core.model.job import Cancelled, Failed, Finished, Job
from koala.core.model.values import JobId
from koala.core.scheduler import Scheduler
from koala.daemon.agents.connections import SiteSessions
from koala.daemon.agents.registry import AgentRegistry, LinkCallbacks
from koala.daemon.agents.session import Allowlist, Timing
from koala.daemon.agents.starter_requests import StarterRequests
from koala.daemon.agents.streams import Streams
from koala.daemon.auth.credential_store import RegistrableSites
from koala.daemon.auth.enrolment_service import Registrar
from koala.daemon.clients.file_service import FileService
from koala.daemon.clients.group_service import GroupService
from koala.daemon.clients.listing import ArchiveQueries
from koala.daemon.clients.logs import Logs
from koala.daemon.clients.notification_service import NotificationService
from koala.daemon.clients.outputs import Outputs, Publisher
from koala.daemon.clients.rsl_parsing import DescriptionParser
from koala.daemon.clients.service import Service
from koala.daemon.clients.site_status import SiteStatus
from koala.daemon.clients.submit_service import SubmitService
from koala.daemon.clients.watch_streams import WatchStreams
from koala.daemon.config import MB, Config
from koala.daemon.files.additions import Additions
from koala.daemon.files.relay_process import Relay, RunRelay
from koala.daemon.files.relay_settings import RelaySettings
from koala.daemon.files.spool import EndedJob, Spool
from koala.daemon.files.uploads import Uploads
from koala.daemon.listeners import Listeners
from koala.daemon.loop.action_dispatcher import ActionDispatcher
from koala.daemon.loop.event_feed import EventFeed
from koala.daemon.loop.event_loop import EventLoop
from koala.daemon.loop.gc_tuning import freeze_periodically
from koala.daemon.loop.group_commit import DurableBatch, Retention
from koala.daemon.loop.observers import Observers
from koala.daemon.metrics.gauges import DaemonParts
from koala.daemon.metrics.summary import metrics_document
from koala.daemon.notifications.notifier import Notifier
from koala.daemon.notifications.outbox import DeliveryStore
from koala.daemon.notifications.receivers import NotifyRules
from koala.daemon.quotas import ConcurrencyQuota, Quotas
from koala.daemon.state.recovery import Recovered
from koala.daemon.storage.journal import Journal, rolled_back_error
from koala.daemon.storage.records import Notice
from koala.daemon.storage.watermark import Watermarks
from koala.views.grid_timeline import LocalHistory

if TYPE_CHECKING:
    from koala.daemon.metrics.serving import DaemonMetrics
    from koala.daemon.notifications.mqtt import MqttPublisher
    from koala.daemon.traces.export import DaemonTraces

SERVER_OPTIONS: tuple[tuple[str, int], ...] = (
    # ping_timeout bounds the detection of a dead peer; keepalive_timeout alone leaves a minute.
    ("grpc.keepalive_time_ms", 10_000),
    ("grpc.keepalive_timeout_ms", 3_000),
    ("grpc.http2.ping_timeout_ms", 3_000),
    ("grpc.keepalive_permit_without_calls", 1),
    ("grpc.http2.min_ping_interval_without_data_ms", 1_000),
    ("grpc.http2.max_ping_strikes", 0),
    # Accept at most 64 kB of a request that is not read yet, however fast the connection: until
    # then its caller is unauthenticated.
    ("grpc.http2.bdp_probe", 0),
    ("grpc.max_receive_message_length", REQUEST_BYTES_MAX),
    ("grpc.max_send_message_length", -1),
    ("grpc.so_reuseport", 0),  # a second daemon on the port must fail, not share it
    ("grpc.max_concurrent_streams", 1_000),  # per connection; further calls wait at the client
)

log = get_logger()


@dataclass(frozen=True, slots=True, kw_only=True)
class Foundation:
    """The configuration, state and ports that all parts of a daemon rest on."""

    config: Config
    journal: Journal
    recovered: Recovered
    listeners: Listeners
    disk: DiskSpace
    secret: bytes
    run_relay: RunRelay

    @property
    def scheduler(self) -> Scheduler:
        """The core, as recovered from the journal."""
        return self.recovered.scheduler


@dataclass(frozen=True, slots=True, kw_only=True)
class Assembly:
    """The parts that a daemon starts and ends (`koala.daemon.lifecycle`)."""

    server: grpc.aio.Server
    address: str  # where clients and agents reach it
    event_loop: EventLoop
    notices: EventFeed
    registry: AgentRegistry
    parser: DescriptionParser
    relay: Relay
    background: Sequence[Callable[[], Coroutine[Any, Any, None]]]
    """Tasks beside the event loop, which end after it."""


def assemble(base: Foundation) -> Assembly:
    """Build all parts and open the ports; nothing runs yet. Raises ConfigError.

    Each part is complete once it is made. Two parts that need one another have a third between
    them, which is made first: the sessions of the sites, the feed of notices, the relay.
    """
    config, scheduler = base.config, base.scheduler
    metrics, traces, bus = _metrics(config, scheduler), _traces(config, scheduler), _bus(config)
    watermarks = _watermarks(base)
    sessions = SiteSessions(watermarks)
    files = _file_parts(base, sessions)
    dispatcher = _dispatcher(base, sessions, files)
    notices = EventFeed(base.journal)
    quotas = Quotas(config.limits, scheduler.jobs.values())
    rules = NotifyRules.of_daemon(
        has_bus=bus is not None,
        is_plain=config.daemon.plain,
        mail=config.mail,
        webhooks=config.notify.webhooks,
    )
    notifier = Notifier(
        feed=notices,
        outbox=DeliveryStore(config.state_dir, per_hour=config.notify.per_user_hour, now=unix_now),
        rules=rules,
        secret=base.secret,
        find_job=partial(_find_job, base),
        users=lambda: (
            {} if base.listeners.credentials is None else base.listeners.credentials.users
        ),
        now=unix_now,
        send=None if bus is None else bus.send,
    )
    publishers = (notices, files.output_queue, quotas, *(() if bus is None else (bus,)))
    receiver = _Receiver(dispatcher, (_log_notices, *(one.publish for one in publishers)))
    local = LocalHistory()
    observed = {"metrics": metrics, "traces": traces}
    observers = Observers(
        {k: one.observe for k, one in observed.items() if one is not None}
        | {"local_use": partial(_note_local, local)}
    )
    event_loop = _event_loop(base, receiver, observers)
    agents = _agent_parts(base, event_loop, sessions, watermarks, dispatcher, files)
    parts = DaemonParts(
        version=software_version(),
        event_loop=event_loop,
        observers=observers,
        requests=agents.requests,
        registry=agents.registry,
        local=local,
        sessions=sessions,
        notices=notices,
        disk=base.disk,
        journal=base.journal,
        listeners=base.listeners,
    )
    groups = GroupService(event_loop=event_loop, credentials=base.listeners.credentials)
    submit_service = SubmitService(
        event_loop=event_loop,
        description_parser=DescriptionParser(calls_per_user=config.limits.calls_per_user),
        quotas=quotas,
        journal=base.journal,
        registry=agents.registry,
        disk=base.disk,
        notify_rules=rules,
        uploads=files.uploads,
        group_of_job=groups.group_of_job,
    )
    # Late: gRPC closes the ports of a server that never started at the end of the process only.
    server = _server(base.listeners, () if metrics is None else (metrics.calls,))
    address = f"{_reachable(config.daemon.listen)}:{base.listeners.open(server)}"
    service = _service(base, parts, submit_service, groups, notifier, agents.logs, files, address)
    link_pb2_grpc.add_AgentLinkServicer_to_server(agents.streams, server)
    koala_pb2_grpc.add_KoalaServicer_to_server(service, server)
    return Assembly(
        server=server,
        address=address,
        event_loop=event_loop,
        notices=notices,
        registry=agents.registry,
        parser=submit_service.description_parser,
        relay=files.relay,
        background=(
            agents.requests.run,
            base.disk.run,
            base.listeners.run,
            lambda: freeze_periodically(lambda: event_loop.jobs),
            files.publisher.run,
            service.files.run,
            notifier.run,
            groups.publish,
            quotas.measure,
            *(() if bus is None else (bus.run,)),
            *(() if metrics is None else (partial(metrics.run, parts),)),
            *(() if traces is None else (traces.run,)),
        ),
    )


@dataclass(frozen=True, slots=True)
class _Receiver:
    """Pass durable actions to the dispatcher, and notices to every publisher."""

    dispatcher: ActionDispatcher
    publishers: Sequence[Callable[[Sequence[Notice]], None]]

    def carry_out(self, actions: Sequence[Action]) -> None:
        for action in actions:
            self.dispatcher.carry_out(action)

    def publish(self, notices: Sequence[Notice]) -> None:
        for publish in self.publishers:
            publish(notices)


@dataclass(frozen=True, slots=True)
class _OutputQueue:
    """Enqueue ended jobs at the publisher of outputs, if their files need it."""

    scheduler: Scheduler
    publisher: Publisher

    def enqueue(self, identity: JobId) -> None:
        job = self.scheduler.jobs[identity]
        wants_files = any(part.output_files or part.outputs for part in job.spec.components)
        if job.attempts > 1 or (job.attempts and wants_files):
            is_finished = isinstance(job.phase, Finished)
            over = EndedJob(job=job.id, attempt=job.attempts, is_finished=is_finished)
            self.publisher.enqueue(over)

    def publish(self, notices: Sequence[Notice]) -> None:
        """Enqueue the jobs that ended without finishing."""
        for notice in notices:
            job = self.scheduler.jobs.get(JobId(notice.job))
            if job is None or notice.phase != job.phase_name:
                continue
            if isinstance(job.phase, Failed | Cancelled):
                self.enqueue(job.id)


# --- files ----------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True, kw_only=True)
class _FileParts:
    spool: Spool
    publisher: Publisher
    output_queue: _OutputQueue
    relay: Relay
    additions: Additions
    uploads: Uploads


def _file_parts(base: Foundation, sessions: SiteSessions) -> _FileParts:
    config = base.config
    spool = Spool(config.spool)
    publisher = Publisher(spool)
    output_queue = _OutputQueue(base.scheduler, publisher)
    for job in base.recovered.over:
        output_queue.enqueue(job)
    relay = _relay(base)
    return _FileParts(
        spool=spool,
        publisher=publisher,
        output_queue=output_queue,
        relay=relay,
        additions=Additions(send=sessions.send, relay=lambda: relay.address, secret=base.secret),
        uploads=Uploads(
            config.spool,
            bytes_max=config.limits.uploads_mb_per_user * MB,
            free_bytes_min=config.low_disk_bytes,
        ),
    )


def _relay(base: Foundation) -> Relay:
    config = base.config
    port = base.listeners.relay_port
    settings = RelaySettings(
        secret=base.secret.hex(),
        identity=base.listeners.identity_path,
        listen=f"{config.relay_listen.rpartition(':')[0]}:{port}",
        spool=str(config.spool),
        bytes_per_s=config.relay.bytes_per_s,
        free_bytes_min=config.low_disk_bytes + config.ballast_bytes,
        kept_bytes=config.ballast_bytes,
        metrics=config.relay_metrics,
    )
    host = config.relay.address or _reachable(config.relay_listen)
    return Relay(settings, address=f"{host}:{port}", run=base.run_relay)


# --- the event loop -------------------------------------------------------------------------------


def _dispatcher(base: Foundation, sessions: SiteSessions, files: _FileParts) -> ActionDispatcher:
    return ActionDispatcher(
        send=sessions.send,
        publish=lambda action: files.output_queue.enqueue(action.job),
        relay=lambda: files.relay.address,
        sites=lambda: base.scheduler.sites,
        secret=base.secret,
    )


def _event_loop(base: Foundation, receiver: _Receiver, observers: Observers) -> EventLoop:
    recovered, kept = base.recovered, base.config.journal
    return EventLoop(
        recovered.scheduler,
        base.journal,
        recovered.clock,
        digest=digest,
        jobs=recovered.jobs,
        receiver=receiver,
        observe=observers,
        retention=Retention(
            keep_jobs=kept.keep_jobs,
            keep_jobs_s=kept.keep_jobs_hours * 3600.0,
            snapshot_events=kept.snapshot_events,
            settings=recovered.settings,
            replayed=recovered.replayed,
        ),
    )


def _log_notices(notices: Sequence[Notice]) -> None:
    for notice in notices:
        if notice.job:
            log.info("job.changed", job=notice.job, phase=notice.phase, text=notice.text)
        else:
            log.info("site.changed", site=notice.site, text=notice.text)


# --- agents ---------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True, kw_only=True)
class _AgentParts:
    logs: Logs
    requests: StarterRequests
    registry: AgentRegistry
    streams: Streams


def _agent_parts(
    base: Foundation,
    event_loop: EventLoop,
    sessions: SiteSessions,
    watermarks: Watermarks,
    dispatcher: ActionDispatcher,
    files: _FileParts,
) -> _AgentParts:
    config, scheduler, clock = base.config, base.scheduler, base.recovered.clock
    logs = Logs(
        scheduler,
        files.spool,
        send=sessions.send,
        is_live=sessions.is_live,
        known=event_loop.job,
        past=base.journal.job,
    )
    requests = StarterRequests(
        scheduler,
        event_loop,
        clock,
        send=sessions.send,
        is_heard=sessions.is_heard,
        deliver_log=logs.deliver,
    )
    links = LinkCallbacks(
        messages=dispatcher.messages,
        relay=lambda: files.relay.address,
        answer=requests.answer,
        additions=files.additions,
        session_ended=logs.fail_pending,
        forked=lambda site, mark: event_loop.fail(
            rolled_back_error(base.journal.path, base.journal.seq, mark.seq, site)
        ),
    )
    registry = AgentRegistry(
        scheduler,
        event_loop,
        clock,
        sessions=sessions,
        links=links,
        allowlist=Allowlist(
            epoch=scheduler.epoch,
            sites=RegistrableSites(config.sites, base.listeners.enrolled),
            is_open=config.is_open,
            verdict=watermarks.verify,
        ),
        timing=Timing(beat_s=config.daemon.beat_s, silence_s=config.daemon.silence_s),
        sites_max=config.limits.sites,
    )
    streams = Streams(
        registry,
        event_loop,
        clock,
        reports_per_s=config.limits.reports_per_s,
        is_awaited=logs.is_awaited,
    )
    return _AgentParts(logs=logs, requests=requests, registry=registry, streams=streams)


def _watermarks(base: Foundation) -> Watermarks:
    return Watermarks(
        secret=base.secret,
        epoch=base.scheduler.epoch,
        loss_epoch=base.scheduler.loss_epoch,
        newest=lambda: base.journal.position,
        chain_at=base.journal.chain_at,
    )


# --- clients --------------------------------------------------------------------------------------


def _service(
    base: Foundation,
    parts: DaemonParts,
    submit_service: SubmitService,
    groups: GroupService,
    notifier: Notifier,
    logs: Logs,
    files: _FileParts,
    address: str,
) -> Service:
    listeners, journal, limits = base.listeners, base.journal, base.config.limits
    return Service(
        version=parts.version,
        relay=lambda: files.relay.address,
        scheduler=base.scheduler,
        event_loop=parts.event_loop,
        watches=WatchStreams(
            event_feed=parts.notices,
            event_loop=parts.event_loop,
            journal=journal,
            scheduler=base.scheduler,
        ),
        site_status=SiteStatus(parts.registry, listeners.enrolled, parts.local),
        logs=logs,
        outputs=Outputs(files.spool, files.publisher),
        files=FileService(
            event_loop=parts.event_loop,
            scheduler=base.scheduler,
            uploads=files.uploads,
            additions=files.additions,
            bytes_max=limits.files_mb_per_user * MB,
        ),
        registrar=Registrar(
            listeners.authority,
            listeners.credentials,
            listeners.audit,
            address=address,
            given_address=base.config.daemon.address or "",
            disconnect=parts.registry.disconnect,
        ),
        groups=groups,
        notifications=NotificationService(credentials=listeners.credentials, notifier=notifier),
        journal=journal,
        archive=ArchiveQueries(journal, calls_per_user=limits.calls_per_user),
        call_queue=listeners.call_queue,
        submit_service=submit_service,
        stream_quota=ConcurrencyQuota(
            "watchers",
            most=limits.watchers,
            most_of_user=limits.watchers_per_user,
            keys=("limits.watchers", "limits.watchers_per_user"),
        ),
        metrics=partial(metrics_document, parts),
    )


def _note_local(local: LocalHistory, batch: DurableBatch) -> None:
    for record in batch.records:
        local.note(record.event, record.at)


def _server(listeners: Listeners, first: Sequence[grpc.aio.ServerInterceptor]) -> grpc.aio.Server:
    return grpc.aio.server(
        options=SERVER_OPTIONS + connection_limits.options(listeners.ports),
        interceptors=(*first, Readable(), listeners.interceptor()),
    )


def _reachable(listen: str) -> str:
    """Return the host part of an address as other machines reach it."""
    host = listen.rpartition(":")[0]
    return socket.gethostname() if host in ("0.0.0.0", "[::]") else host


# --- optional parts -------------------------------------------------------------------------------


async def _find_job(base: Foundation, name: JobId) -> Job | None:
    """Find a job in memory or in the archive."""
    return base.scheduler.jobs.get(name) or await base.journal.job(name)


def _bus(config: Config) -> MqttPublisher | None:
    if not config.bus_url:
        return None
    from koala.daemon.notifications.mqtt import MqttBroker, MqttPublisher  # noqa: PLC0415 - not imported without a broker

    return MqttPublisher(MqttBroker.parse(config.bus_url))


def _metrics(config: Config, scheduler: Scheduler) -> DaemonMetrics | None:
    if config.metrics is None:
        return None
    from koala.daemon.metrics.serving import DaemonMetrics  # noqa: PLC0415 - needs an extra

    return DaemonMetrics(config.metrics, scheduler)


def _traces(config: Config, scheduler: Scheduler) -> DaemonTraces | None:
    if not config.traces:
        return None
    from koala.daemon.traces.export import DaemonTraces  # noqa: PLC0415 - needs an extra

    return DaemonTraces(config.traces, scheduler, version=software_version())
