"""The assembly of a daemon: its parts, built from the configuration, from start to end."""

from __future__ import annotations

import asyncio
import os
import socket
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING

import grpc

from koala.core.model.actions import Action
from koala.core.model.job import Finished
from koala.core.model.values import JobId
from koala.core.scheduler import Scheduler
from koala.daemon.agents.connections import SiteSessions
from koala.daemon.agents.registry import AgentRegistry, LinkCallbacks
from koala.daemon.agents.requests import RequestHandler
from koala.daemon.agents.session import Allowlist, Timing
from koala.daemon.agents.streams import Streams
from koala.daemon.auth.audit import note
from koala.daemon.auth.enrolment_service import Registrar
from koala.daemon.auth.enrolments import Owners
from koala.daemon.clients.archive_queries import ArchiveQueries
from koala.daemon.clients.event_feed import EventFeed
from koala.daemon.clients.file_service import FileService
from koala.daemon.clients.logs import Logs
from koala.daemon.clients.outputs import Outputs, Publisher
from koala.daemon.clients.rsl_parsing import DescriptionParser
from koala.daemon.clients.service import Service
from koala.daemon.clients.site_status import SiteStatus
from koala.daemon.clients.submit_service import SubmitService
from koala.daemon.clients.watch_streams import WatchStreams
from koala.daemon.config import MB, Config
from koala.daemon.files.additions import Additions
from koala.daemon.files.relay_process import Relay, RunRelay, run_relay_process
from koala.daemon.files.relay_settings import RelaySettings
from koala.daemon.files.spool import EndedJob, Spool
from koala.daemon.files.uploads import Uploads
from koala.daemon.listeners import Listeners, check_state
from koala.daemon.loop.action_dispatcher import ActionDispatcher
from koala.daemon.loop.event_loop import EventLoop
from koala.daemon.loop.gc_tuning import freeze_all, freeze_periodically, gc_paused
from koala.daemon.loop.group_commit import Upkeep
from koala.daemon.loop.observers import Observers
from koala.daemon.metrics.parts import DaemonParts
from koala.daemon.metrics.summary import metrics_picture
from koala.daemon.notifications.notifier import Notifier, NotifyRules
from koala.daemon.quotas import ConcurrencyQuota, Quotas
from koala.daemon.state.initialization import leave_witness
from koala.daemon.state.recovery import Recovered, begin_life, read_secret
from koala.daemon.storage.journal import Journal, overtaken
from koala.daemon.storage.records import Notice
from koala.daemon.storage.watermark import Watermarks
from koala.errors import DiskError, first_error
from koala.runtime.disk import Disk
from koala.runtime.software import software_version
from koala.runtime.structured_log import get_logger
from koala.runtime.systemd import ServiceManager
from koala.runtime.threads import keep_threads
from koala.views.digest import digest
from koala.wire import connection_limits as strangers
from koala.wire.interceptors import Readable
from koala.wire.v1 import koala_pb2_grpc, link_pb2_grpc

if TYPE_CHECKING:
    from koala.daemon.metrics.serving import DaemonMetrics
    from koala.daemon.notifications.mqtt import MqttPublisher
    from koala.daemon.traces.export import DaemonTraces

ENDS = ("Failed", "Cancelled")
LAST_WORDS_S = 0.2  # for calls to receive their error
STOP_S = 2.0  # for running calls, after Goodbye
REQUEST_BYTES_MAX = 16 * 1024 * 1024

SERVER_OPTIONS: tuple[tuple[str, int], ...] = (
    # ping_timeout bounds the detection of a dead peer; keepalive_timeout alone leaves a minute.
    ("grpc.keepalive_time_ms", 10_000),
    ("grpc.keepalive_timeout_ms", 3_000),
    ("grpc.http2.ping_timeout_ms", 3_000),
    ("grpc.keepalive_permit_without_calls", 1),
    ("grpc.http2.min_ping_interval_without_data_ms", 1_000),
    ("grpc.http2.max_ping_strikes", 0),
    # Accept at most 64 kB of a request that is not read yet, however fast the connection: until
    # then its caller is unauthenticated, and may send little (`flood_guard`).
    ("grpc.http2.bdp_probe", 0),
    ("grpc.max_receive_message_length", REQUEST_BYTES_MAX),
    ("grpc.max_send_message_length", -1),
    ("grpc.so_reuseport", 0),  # a second daemon on the port must fail, not share it
    ("grpc.max_concurrent_streams", 1_000),  # per connection; further calls wait at the client
)

log = get_logger()


class Daemon:
    """One life of a daemon. `serve` returns after an ordered end and raises the error otherwise."""

    def __init__(
        self, config: Config, *, accept_loss: bool = False, run_relay: RunRelay = run_relay_process
    ) -> None:
        self.address = ""  # where clients and agents reach it, once it serves
        self.started = asyncio.Event()
        self._config = config
        self._accept_loss = accept_loss
        self._run_relay = run_relay
        self._disk = Disk(
            config.state_dir,
            low_bytes=config.low_disk_bytes,
            ballast_bytes=config.ballast_bytes,
        )
        self._manager = ServiceManager.of(os.environ)

    async def serve(self, stop: asyncio.Event) -> None:
        """Serve until `stop` is set."""
        keep_threads(asyncio.get_running_loop())
        state_dir = self._config.state_dir
        check_state(state_dir)
        listeners = None
        begin = partial(
            begin_life,
            self._config,
            make_room=self._disk.give_up_ballast,
            accept_loss=self._accept_loss,
        )
        with gc_paused():
            journal, recovered = await asyncio.to_thread(begin)
            freeze_all()
        try:
            listeners = Listeners(self._config, self._disk.write_with_ballast)
            if self._accept_loss:
                note(state_dir, verb="AcceptLoss", subject=f"epoch {recovered.scheduler.epoch}")
            await self._serve(journal, recovered, listeners, stop)
        except BaseExceptionGroup as group:
            raise first_error(group) from group
        finally:
            with suppress(FileNotFoundError):
                (state_dir / "endpoint").unlink()
            if listeners is not None:
                listeners.close()
            journal.close()

    # --- assembly ---------------------------------------------------------------------------------

    async def _serve(
        self, journal: Journal, recovered: Recovered, listeners: Listeners, stop: asyncio.Event
    ) -> None:
        config, scheduler, clock = self._config, recovered.scheduler, recovered.clock
        secret = read_secret(config.state_dir)
        metrics = _metrics(config, scheduler)
        server = _server(listeners, () if metrics is None else (metrics.calls,))
        self.address = f"{_reachable(config.listen)}:{listeners.open(server)}"
        watermarks = Watermarks(
            secret=secret,
            epoch=scheduler.epoch,
            loss_epoch=scheduler.loss_epoch,
            newest=lambda: journal.mark,
            chain_at=journal.chain_at,
        )
        sessions = SiteSessions(watermarks)
        spool = Spool(config.spool)
        publisher = Publisher(spool)
        outputs = _OutputSettler(scheduler, publisher)
        relay = _relay(config, secret, listeners.identity_path, self._run_relay)
        dispatcher = ActionDispatcher(
            send=sessions.send,
            publish=lambda action: outputs.settle(action.job),
            relay=lambda: relay.address,
            sites=lambda: scheduler.sites,
            secret=secret,
        )
        additions = Additions(send=sessions.send, relay=lambda: relay.address, secret=secret)
        notices = EventFeed(journal)
        quotas = Quotas(config.limits, scheduler.jobs.values())
        bus = _bus(config)
        publishers = [notices.publish, _log_notices, outputs.publish, quotas.publish]
        notify_rules = NotifyRules.of_daemon(has_bus=bus is not None, is_plain=config.is_plain)
        notifier = Notifier(scheduler.jobs.get, None if bus is None else bus.send)
        publishers.append(notifier.publish)
        if bus is not None:
            publishers.append(bus.publish)
        receiver = _Receiver(dispatcher, publishers)
        event_loop = _event_loop(config, journal, recovered, receiver)
        traces = _traces(config, scheduler)
        observers = {"metrics": metrics, "traces": traces}
        event_loop.observe = observing = Observers(
            {name: one.observe for name, one in observers.items() if one is not None}
        )
        logs = Logs(
            scheduler,
            spool,
            send=sessions.send,
            is_live=sessions.is_live,
            known=event_loop.job,
            past=journal.job,
        )
        requests = RequestHandler(
            scheduler, event_loop, clock, send=sessions.send, deliver_log=logs.deliver
        )
        registry = AgentRegistry(
            scheduler,
            event_loop,
            clock,
            sessions=sessions,
            links=LinkCallbacks(
                messages=dispatcher.messages,
                relay=lambda: relay.address,
                answer=requests.answer,
                additions=additions,
                session_ended=logs.fail_pending,
                forked=lambda site, mark: event_loop.fail(
                    overtaken(journal.path, journal.seq, mark.seq, site)
                ),
            ),
            allowlist=Allowlist(
                epoch=scheduler.epoch,
                sites=Owners(config.sites, listeners.enrolled),
                is_open=config.is_open,
                verdict=watermarks.verify,
            ),
            timing=Timing(beat_s=config.beat_s, silence_s=config.silence_s),
            sites_max=config.limits.sites,
        )
        streams = Streams(
            registry,
            event_loop,
            clock,
            opened=relay.started,
            reports_per_s=config.limits.reports_per_s,
            is_awaited=logs.is_awaited,
        )
        parser = DescriptionParser(calls_per_user=config.limits.calls_per_user)
        parts = DaemonParts(
            version=software_version(),
            event_loop=event_loop,
            observers=observing,
            requests=requests,
            registry=registry,
            sessions=sessions,
            notices=notices,
            disk=self._disk,
            journal=journal,
            listeners=listeners,
        )
        registrar = Registrar(
            listeners.authority,
            listeners.enrolments,
            listeners.audit,
            address=self.address,
            disconnect=registry.disconnect,
        )
        uploads = Uploads(
            config.spool,
            bytes_max=config.limits.uploads_mb_per_user * MB,
            free_bytes_min=config.low_disk_bytes,
        )
        files = FileService(
            event_loop=event_loop,
            scheduler=scheduler,
            uploads=uploads,
            additions=additions,
            bytes_max=config.limits.files_mb_per_user * MB,
        )
        service = Service(
            version=parts.version,
            relay=lambda: relay.address,
            scheduler=scheduler,
            event_loop=event_loop,
            watches=WatchStreams(
                event_feed=notices, event_loop=event_loop, journal=journal, scheduler=scheduler
            ),
            site_status=SiteStatus(registry, listeners.enrolled),
            logs=logs,
            outputs=Outputs(spool, publisher),
            files=files,
            registrar=registrar,
            journal=journal,
            archive=ArchiveQueries(journal, calls_per_user=config.limits.calls_per_user),
            call_queue=listeners.call_queue,
            submit_service=SubmitService(
                event_loop=event_loop,
                description_parser=parser,
                quotas=quotas,
                journal=journal,
                registry=registry,
                disk=self._disk,
                notify_rules=notify_rules,
                uploads=uploads,
            ),
            stream_quota=_watcher_quota(config),
            metrics=partial(metrics_picture, parts),
        )
        for job in recovered.over:
            outputs.settle(job)
        link_pb2_grpc.add_AgentLinkServicer_to_server(streams, server)
        koala_pb2_grpc.add_KoalaServicer_to_server(service, server)
        async with asyncio.TaskGroup() as group:
            running = group.create_task(event_loop.run())
            others = [
                group.create_task(requests.run()),
                group.create_task(self._disk.run()),
                group.create_task(listeners.run()),
                group.create_task(listeners.flood_guard.run()),
                group.create_task(freeze_periodically(lambda: event_loop.jobs)),
                group.create_task(publisher.run()),
                group.create_task(files.run()),
                group.create_task(notifier.run()),
                group.create_task(quotas.measure()),
            ]
            if bus is not None:
                others.append(group.create_task(bus.run()))
            if metrics is not None:
                others.append(group.create_task(metrics.run(parts)))
            if traces is not None:
                others.append(group.create_task(traces.run()))
            others.append(group.create_task(self._manager.feed()))
            relaying = group.create_task(relay.run())
            try:
                # A client that finds the endpoint must find its credentials, too.
                listeners.announce(self.address)
                await server.start()
                self._write_endpoint()
                leave_witness(config.state_dir)
                log.info("daemon.started", address=self.address, epoch=scheduler.epoch)
                self.started.set()
                self._manager.ready(f"serving at {self.address}, epoch {scheduler.epoch}")
                await stop.wait()
                log.info("daemon.stopping")
                self._manager.stopping("jobs run on")
            finally:
                # Also when the event loop failed: after that no call may be answered.
                notices.close()
                registry.close("the daemon stops")
                await server.stop(LAST_WORDS_S if event_loop.has_failed else STOP_S)
                parser.close()
            event_loop.close()
            await running
            relaying.cancel()
            for task in others:
                task.cancel()
        log.info("daemon.ended")

    def _write_endpoint(self) -> None:
        path = self._config.state_dir / "endpoint"
        part = path.with_suffix(".new")

        def write() -> None:
            part.touch(mode=0o600)
            part.write_text(self.address + "\n", encoding="utf-8")
            part.rename(path)

        try:
            self._disk.write_with_ballast(write)
        except OSError as error:
            raise DiskError(f"{path}: cannot be written: {error.strerror}") from error


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
class _OutputSettler:
    """Hand the ended jobs whose files need it to the publisher of outputs."""

    scheduler: Scheduler
    publisher: Publisher

    def settle(self, identity: JobId) -> None:
        job = self.scheduler.jobs[identity]
        wants_files = any(part.output_files or part.outputs for part in job.spec.components)
        if job.attempts > 1 or (job.attempts and wants_files):
            is_finished = isinstance(job.phase, Finished)
            over = EndedJob(job=job.id, attempt=job.attempts, is_finished=is_finished)
            self.publisher.enqueue(over)

    def publish(self, notices: Sequence[Notice]) -> None:
        """Settle the jobs that ended without finishing."""
        for notice in notices:
            if notice.job in self.scheduler.jobs and notice.phase in ENDS:
                self.settle(JobId(notice.job))


# --- parts ----------------------------------------------------------------------------------------


def _event_loop(
    config: Config, journal: Journal, recovered: Recovered, receiver: _Receiver
) -> EventLoop:
    return EventLoop(
        recovered.scheduler,
        journal,
        recovered.clock,
        digest=digest,
        jobs=recovered.jobs,
        receiver=receiver,
        upkeep=Upkeep(
            keep_jobs=config.journal.keep_jobs,
            keep_jobs_s=config.journal.keep_jobs_hours * 3600.0,
            snapshot_events=config.journal.snapshot_events,
            settings=recovered.settings,
            replayed=recovered.replayed,
        ),
    )


def _relay(config: Config, secret: bytes, identity: str, run: RunRelay) -> Relay:
    settings = RelaySettings(
        secret=secret.hex(),
        identity=identity,
        listen=config.relay_listen,
        spool=str(config.spool),
        bytes_per_s=config.relay_bytes_per_s,
        free_bytes_min=config.low_disk_bytes + config.ballast_bytes,
        kept_bytes=config.ballast_bytes,
        metrics=config.relay_metrics,
    )
    host = config.relay_address or _reachable(config.relay_listen)
    return Relay(settings, host=host, run=run)


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


def _watcher_quota(config: Config) -> ConcurrencyQuota:
    return ConcurrencyQuota(
        "watchers",
        most=config.limits.watchers,
        most_of_user=config.limits.watchers_per_user,
        keys=("limits.watchers", "limits.watchers_per_user"),
    )


def _server(listeners: Listeners, first: Sequence[grpc.aio.ServerInterceptor]) -> grpc.aio.Server:
    return grpc.aio.server(
        options=SERVER_OPTIONS + strangers.options(listeners.ports),
        interceptors=(*first, Readable(listeners.flood_guard), listeners.interceptor()),
    )


def _reachable(listen: str) -> str:
    """Return the host part of an address as other machines reach it."""
    host = listen.rpartition(":")[0]
    return socket.gethostname() if host in ("0.0.0.0", "[::]") else host


def _log_notices(notices: Sequence[Notice]) -> None:
    emit = log.bind().info  # found once for all: the search costs as much as a line
    for notice in notices:
        if notice.job:
            emit("job.changed", job=notice.job, phase=notice.phase, text=notice.text)
        else:
            emit("site.changed", site=notice.site, text=notice.text)
