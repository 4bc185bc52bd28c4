"""The assembly of an agent: connects claims, files, local manager and link of one site.

Each part knows its own work only; this module passes messages between them. It decides one thing:
when the daemon receives the site's figures. They are sent when they change, when an ask was
accepted, and when a claim changed, together with the highest ask number that they include.
"""

from __future__ import annotations

import asyncio
import os
import pwd
import secrets
import socket
from dataclasses import replace
from pathlib import Path
from random import Random

import msgspec
import structlog

from koala.errors import LocalManagerError
from koala.files.incoming import Incoming
from koala.files.rate_limits import RateLimits
from koala.identity.tls import IdentityFile
from koala.protocol import messages
from koala.protocol.codec import mark_of
from koala.protocol.messages import (
    FetchOrder,
    LogChunk,
    LogRequest,
    ServeOrder,
    SiteFigures,
    Watermark,
    Welcome,
)
from koala.protocol.names import ClaimId, SiteName
from koala.runtime import clock
from koala.runtime.disk import MB, Disk
from koala_agent.accounts import Entries, own_environment, served
from koala_agent.claim_driver import ClaimDriver, Ports, check_outputs
from koala_agent.claims.settings import Leases, Limits
from koala_agent.claims.states import Claim
from koala_agent.claims.store import Store
from koala_agent.config import Config, LRMTable, largest_local_job
from koala_agent.files import Files, FilesSettings
from koala_agent.link import codec
from koala_agent.link.enrolment import Renewal, find_identity
from koala_agent.link.session import Finish, Order, Session, Timing
from koala_agent.link.stream import Link, Wire
from koala_agent.lrm.batch import BatchManager, BatchSettings
from koala_agent.lrm.dialect import Dialect
from koala_agent.lrm.emulated import EmulatedLocalManager, EmulatedSettings
from koala_agent.lrm.local_users import LoadParameters
from koala_agent.lrm.model import Discipline
from koala_agent.lrm.port import Idle, Listed, LocalManager
from koala_agent.lrm.shell import Shell, plain_environment
from koala_agent.placeholders.input_files import InputManager, InputPaths
from koala_agent.placeholders.input_references import InputReferences
from koala_agent.placeholders.logs import read_log
from koala_agent.placeholders.result_files import missing, upload_order
from koala_agent.placeholders.submission import LaunchSettings
from koala_agent.state_folder import check_state

LISTED_WAIT_S = 2.0
"""Longest wait of a registration for the first scan of the site's files."""

COLLECT_MAX_S = 7 * 86_400.0
"""Longest wait of outputs for a daemon that is away. While it is there, the limit is an upload's.
"""

LOGS_MAX = 8
"""Logs that are read concurrently."""

WILDCARDS = ("0.0.0.0", "::", "[::]", "")

log = structlog.get_logger()


class Site:
    """Agent of one site. Build it, then await `run` once."""

    def __init__(self, config: Config, *, version: str, umask: int) -> None:
        """Build all parts. `umask` is that of the started processes. Raises ConfigError and
        JournalError when the state directory cannot be used."""
        self._config = config
        self._umask = umask
        self._version = version
        self._served = served(config)
        state = Path(config.agent.state_dir)
        check_state(state)
        self._identity = None if config.agent.plain else find_identity(state, config.agent.site)
        self._spool = state / "transfers" / "incoming"
        self._disk = Disk(
            state,
            low_bytes=int(config.agent.low_disk_mb * MB),
            ballast_bytes=int(config.agent.ballast_mb * MB),
        )
        self._disk.make_room_to_start()
        self._store = Store(state, make_room=self._disk.give_up_ballast)
        files = replace(
            _files_settings(config, self._identity), room_bytes=lambda: self._disk.room_bytes
        )
        self._files = Files(files, self._send_file_report)
        place = LaunchSettings(
            root=state / "claims",
            site=config.agent.site,
            address=_address(config),
            agents=config.starter.addresses or _agent_addresses(config.starter.listen),
            python=config.starter.python,
            manager=config.lrm.kind,
            launcher=config.lrm.launcher,
            shared=config.starter.shared,
            scratch=config.starter.scratch,
            executables=config.site.executables,
            variables=config.site.variables,
            accounts=self._served.accounts,
        )
        self._may_leave = place.shows_all
        self._inputs = InputPaths(
            replica=self._files.local_path,
            copy=Incoming(self._spool).path,
            folder=place.folder,
            room_bytes=lambda: self._disk.room_bytes,
        )
        self._manager = InputManager(self._local_manager(), self._inputs, self._hold_of)
        self._claims = ClaimDriver(
            store=self._store,
            manager=self._manager,
            place=place,
            ports=Ports(
                tell=self._send_claim_report,
                clock=clock.now,
                unix_clock=clock.unix_now,
                input_path=self._inputs.path,
                collect=self._collect,
                room_bytes=lambda: self._disk.room_bytes,
            ),
            limits=Limits(
                grace_s=config.site.grace_s,
                processors_max=config.site.largest_claim,
                hold_max_s=config.site.longest_hold_s,
                users=self._served.users,
                users_key=self._served.key,
                collect_max_s=COLLECT_MAX_S,
            ),
            listen=config.starter.listen,
            port=config.starter.port,
            keep_s=config.agent.keep_s,
        )
        self._input_references = InputReferences(self._claims.claims)
        self._link = self._make_link()
        self._figures_due = asyncio.Event()
        self._renewal: Renewal | None = None
        if self._identity is not None:
            daemon = config.agent.daemon
            self._renewal = Renewal(
                self._identity,
                daemon,
                redial=self._link.redial,
                changed=self._figures_due.set,
            )
        self._idle: Idle | None = None
        self._welcomed = asyncio.Event()
        self._live = asyncio.Event()
        self._sessions = 0
        self._is_owed = False
        self._logs = asyncio.Semaphore(LOGS_MAX)

    async def run(self) -> Finish:
        """Serve until `close` or a final refusal; jobs run on."""
        try:
            async with asyncio.TaskGroup() as group:
                self._group = group
                helpers = [
                    group.create_task(self._claims.run()),
                    group.create_task(self._disk.run(changed=self._figures_due.set)),
                ]
                # Before the local manager, because it receives its reports.
                await self._claims.opened()
                group.create_task(self._manager.run())
                helpers.append(group.create_task(self._files.run()))
                await self._files.is_ready.wait()
                await self._manager.opened()
                await self._query_idle()
                helpers.append(group.create_task(self._send_figures()))
                if isinstance(self._served.entries, Entries):
                    helpers.append(group.create_task(self._served.entries.run()))
                if self._renewal is not None:
                    helpers.append(group.create_task(self._renewal.run()))
                finish = await self._link.run()
                await self._manager.close()
                for helper in helpers:
                    helper.cancel()
            return finish
        finally:
            self._store.close()

    def close(self, reason: str) -> None:
        """Send the daemon a goodbye and make `run` return."""
        self._link.close(reason)

    async def attempted(self) -> str:
        """Wait for the end of the first attempt to register; return why it failed, empty when it
        succeeded."""
        await self._link.attempted.wait()
        return self._link.trouble

    async def welcomed(self) -> None:
        """Wait until the daemon has accepted a session for the first time."""
        await self._link.welcomed.wait()

    # What the link wants (link.Agent) -----------------------------------------------------------

    def startable(self) -> int:
        """Return the number of processors that a claim could have now."""
        return 0 if self._idle is None or self._disk.is_low else self._idle.startable

    async def prepare(self) -> None:
        """Wait for the local manager's listing, and briefly for the scan of the files."""
        await self._claims.prepared()
        try:
            async with asyncio.timeout(LISTED_WAIT_S):
                await self._files.is_listed.wait()
        except TimeoutError:
            log.info("files.listed_later")

    def inventory(self) -> tuple[object, ...]:
        """Return all claims, stored values, files and copies."""
        return (*self._claims.inventory(), *self._files.inventory())

    def store_epoch(self, epoch: int) -> None:
        """Store the epoch; durable when it returns."""
        self._store.set_epoch(epoch)

    def keep_watermark(self, mark: Watermark) -> None:
        """Store the watermark with the next commit, or after MARK_S when there is none."""
        self._store.note_watermark(mark)

    def begin_session(self, welcome: Welcome) -> None:
        """Begin a session: pass the leases to starters and the relay to copies."""
        self._input_references.begin_session()
        self._sessions += 1
        self._files.relay = welcome.relay
        self._welcomed.set()
        self._claims.set_leases(
            Leases(
                hold_lease_s=welcome.hold_lease_s,
                run_lease_s=welcome.run_lease_s,
                kill_s=welcome.kill_s,
            )
        )

    def apply(self, order: Order) -> None:
        """Dispatch an order to the part that carries it out."""
        match order.body:
            case messages.Hold() as hold:
                self._input_references.add(hold)
                self._is_owed = True
                self._claims.order(hold, shortage=self._shortage())
                self._figures_due.set()
            case messages.Acknowledge() as acknowledge:
                for transfer in self._input_references.drop(acknowledge.claim):
                    self._files.remove(transfer)
                self._claims.order(acknowledge)
            case (
                messages.TryPaths()
                | messages.Arm()
                | messages.Release()
                | messages.Pace()
                | messages.Stop()
                | messages.Pong()
                | messages.KvAnswer() as body
            ):
                self._claims.order(body)
            case FetchOrder() as fetch:
                self._files.fetch(fetch)
            case ServeOrder() as serve:
                self._files.serve(serve)
            case messages.CancelTransfer(transfer=transfer):
                self._files.cancel(transfer)
            case LogRequest() as request:
                self._group.create_task(self._answer_log(request))
            case body:
                raise AssertionError(f"an order nobody takes: {body!r}")

    def stop_others(self, *, claims: frozenset[str], transfers: frozenset[str]) -> None:
        """Stop everything that is not named. Files that a named claim reads are kept; a copy whose
        claim may follow later is named as a transfer."""
        self._live.set()
        self._claims.stop_unnamed(claims)
        self._files.retain(transfers | self._input_references.read_by(claims))

    # What the parts say -------------------------------------------------------------------------

    def _send_claim_report(self, message: messages.ToDaemon) -> None:
        self._link.send_report(message)
        if isinstance(message, messages.Report):
            self._figures_due.set()

    def _send_file_report(self, report: object) -> None:
        self._link.send_report(report)

    def _handle_local_report(self, report: Listed | Idle) -> None:
        if isinstance(report, Idle):
            self._idle = report
            self._figures_due.set()
        else:
            self._claims.handle_listed(report)

    async def _collect(self, claim: Claim, folder: Path) -> str:
        """Upload outputs and logs to the spool; return which outputs did not arrive."""
        await self._welcomed.wait()  # the daemon says where its relay is
        while True:
            if not self._files.relay:
                # Without a relay the outputs stay here.
                return await check_outputs(claim, folder, may_leave=self._may_leave)
            sessions = self._sessions
            order = upload_order(claim, folder, relay=self._files.relay, may_leave=self._may_leave)
            reason = missing(await self._files.upload(order))
            if not reason or (self._link.is_live and sessions == self._sessions):
                return reason
            # The daemon was away, and its relay with it: that is no fault of the program's.
            if not self._link.is_live:
                self._live.clear()
                await self._live.wait()

    async def _send_figures(self) -> None:
        """Send the site's figures to the daemon whenever there is a reason to."""
        while True:
            await self._figures_due.wait()
            self._figures_due.clear()
            is_owed, self._is_owed = self._is_owed, False
            # First the number, then the figures: they may include more, never less.
            through = self._claims.asked_through
            idle = await self._query_idle()
            if idle is None:
                # Sent with the next change; until then the daemon uses the last figures.
                self._is_owed = self._is_owed or is_owed
                continue
            figures = SiteFigures(
                idle=self.startable(),
                through=through,
                processors=idle.processors,
                local_processors=idle.local_processors,
                queued_jobs=idle.queued_jobs,
                trouble="; ".join(filter(None, self._troubles(idle))),
            )
            self._link.send_figures(figures, is_owed=is_owed)

    async def _query_idle(self) -> Idle | None:
        """Query the site's processors; None when the local manager does not answer."""
        try:
            self._idle = await self._manager.idle()
        except LocalManagerError as error:
            log.warning("site.figures_unknown", reason=str(error))
            return None
        return self._idle

    async def _answer_log(self, request: LogRequest) -> None:
        async with self._logs:
            source = self._claims.log_source(ClaimId(request.claim))
            if source is None:
                chunk = LogChunk(
                    request=request.request,
                    offset=request.offset,
                    is_over=True,
                    error=f"{self._config.agent.site} has no logs of {request.claim} (any more)",
                )
            else:
                chunk = await asyncio.to_thread(read_log, request, source)
            self._link.send_report(chunk)

    def _shortage(self) -> str:
        """Return why no new claim can be accepted now; empty when it can."""
        if shortage := self._disk.shortage:
            return f"the agent's disk is nearly full: {shortage} for new claims"
        return ""

    def _troubles(self, idle: Idle) -> tuple[str, ...]:
        """Return the problems for the site's administrator; empty strings mean none."""
        renewal = "" if self._renewal is None else self._renewal.trouble
        return self._shortage(), renewal, idle.trouble

    def _hold_of(self, claim: str) -> messages.Hold | None:
        return self._input_references.hold_of(claim)

    # Building -----------------------------------------------------------------------------------

    def _local_manager(self) -> LocalManager:
        config = self._config
        state = Path(config.agent.state_dir) / "lrm"
        match config.lrm:
            case LRMTable(kind="emulated"):
                settings = EmulatedSettings(
                    processors=config.site.processors,
                    state_directory=state,
                    discipline=Discipline(config.lrm.discipline),
                    fault_rate=config.lrm.fault_rate,
                    seed=config.lrm.seed,
                    load=_load(config),
                    may_kill_local=config.lrm.may_kill_local,
                    environment=own_environment(),
                    umask=self._umask,
                    entries=self._served.entries,
                    make_room=self._disk.give_up_ballast,
                )
                return EmulatedLocalManager(
                    settings, tell=self._handle_local_report, clock=clock.now
                )
            case _:
                batch = BatchSettings(
                    processors=config.site.processors,
                    state_directory=state,
                    scope=secrets.token_hex(4),
                    poll_s=config.lrm.poll_s,
                    account=pwd.getpwuid(os.geteuid()).pw_name,
                    accounts=tuple(self._served.entries),
                    make_room=self._disk.give_up_ballast,
                )
                return BatchManager(
                    batch,
                    _dialect(config.lrm),
                    Shell(
                        environment=plain_environment(config.lrm.environment),
                        umask=self._umask,
                        limit_s=config.lrm.command_limit_s,
                        entries=self._served.entries,
                    ),
                    tell=self._handle_local_report,
                    clock=clock.now,
                )

    def _make_link(self) -> Link:
        config = self._config
        session = Session(
            epoch=self._store.epoch,
            timing=Timing(silence_s=config.agent.silence_s),
            random=Random(os.urandom(8)),
            now=clock.now(),
            mark=self._store.mark,
        )
        wire = Wire(
            target=config.agent.daemon,
            encode=lambda message: codec.encode(message, self._description()),
            decode=codec.decode,
            mark=mark_of,
            identity=self._identity,
        )
        return Link(session, wire, self, clock=clock.now)

    def _description(self) -> codec.SiteDescription:
        config = self._config
        facts = messages.Facts(
            processors=config.site.processors,
            grace_s=config.site.grace_s,
            starts_after_stop=self._manager.starts_after_stop,
            address=_address(config) if config.lrm.kind == "emulated" else config.site.address,
            serves=self._served_address(),
            owner=self._served.owner,
            users=tuple(sorted(self._served.accounts or ())),
            honours=self._manager.honours,
            may_kill_local=config.lrm.may_kill_local,
            mips=config.site.mips,
            slots=config.site.slots or 0,
        )
        site = SiteName(config.agent.site)
        return codec.SiteDescription(version=self._version, site=site, facts=facts)

    def _served_address(self) -> str:
        """Return the address at which other agents reach our file server; a wildcard is none."""
        files = self._config.files
        if files.serve is None or self._files.port is None:
            return ""
        host = files.serve.rpartition(":")[0]
        if files.address:
            host = f"[{files.address}]" if ":" in files.address else files.address
        elif host in WILDCARDS:
            host = _address(self._config)
        return f"{host}:{self._files.port}"


def _address(config: Config) -> str:
    return config.site.address or "127.0.0.1"


def _agent_addresses(listen: str) -> tuple[str, ...]:
    """Return the addresses at which starters look for this agent, in order."""
    return (socket.gethostname(), "127.0.0.1") if listen in WILDCARDS else (listen,)


def _dialect(lrm: LRMTable) -> Dialect:
    """Return the dialect of the site's batch system."""
    if lrm.kind == "slurm":
        from koala_agent.lrm.slurm import Slurm  # noqa: PLC0415 - late: a site has one of them

        return Slurm(account=lrm.account, partition=lrm.partition, qos=lrm.qos, options=lrm.options)
    from koala_agent.lrm.gridengine import GridEngine  # noqa: PLC0415

    return GridEngine(
        queue=lrm.queue,
        parallel_environment=lrm.parallel_environment,
        project=lrm.project,
        options=lrm.options,
    )


def _load(config: Config) -> LoadParameters | None:
    load = config.load
    if load.arrivals_per_hour == 0:
        return None
    given = {**msgspec.structs.asdict(load), "size_max": largest_local_job(config)}
    return LoadParameters(**given, speed=config.lrm.speed)


def _files_settings(config: Config, identity: IdentityFile | None) -> FilesSettings:
    return FilesSettings(
        site=config.agent.site,
        store=Path(config.files.store),
        state=Path(config.agent.state_dir) / "transfers",
        serve=config.files.serve,
        identity=identity,
        rates=RateLimits(default=config.files.rate, by_site=config.files.rates),
        fetches_max=config.files.concurrent,
        readers_max=2 * config.files.concurrent,
    )
