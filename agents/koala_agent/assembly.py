"""The assembly of a live site: its surroundings, built from the configuration."""

from __future__ import annotations

import asyncio
import math
import os
import secrets
from collections.abc import Callable, Coroutine
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from random import Random
from typing import TYPE_CHECKING

from koala.common.files.bandwidth_limits import BandwidthLimits
from koala.common.files.channels import Channels
from koala.common.files.incoming import Incoming
from koala.common.identity.tls import IdentityFile
from koala.common.protocol import messages
from koala.common.protocol.codec import watermark_of
from koala.common.protocol.names import SiteName
from koala.common.runtime import clock
from koala.common.runtime.disk_space import MB, DiskSpace
from koala.common.runtime.structured_log import get_logger
from koala_agent import environments
from koala_agent.accounts import AcceptedUsers, AccountSwitches, accepted_users
from koala_agent.agent import Agent, AgentSettings, Surroundings
from koala_agent.claim_folders import ClaimFolders
from koala_agent.claim_surroundings import ClaimSurroundings, StoreThread
from koala_agent.claims.settings import Limits
from koala_agent.claims.store import Store
from koala_agent.config import local_load, metrics_endpoint
from koala_agent.config_tables import Config
from koala_agent.files import Files, FilesSettings
from koala_agent.link import codec
from koala_agent.link.enrolment import find_identity
from koala_agent.link.session import Session, Timing
from koala_agent.link.session_events import Event, Reported
from koala_agent.link.session_status import SessionStatus
from koala_agent.link.stream import StreamFactory
from koala_agent.lrm.batch.batch_manager import BatchManager
from koala_agent.lrm.batch.batch_settings import BatchSettings
from koala_agent.lrm.batch.guarded_dialect import guarded
from koala_agent.lrm.batch.native import EVERY
from koala_agent.lrm.batch_system import DialectSettings, outer_job_variables
from koala_agent.lrm.dialect import Dialect
from koala_agent.lrm.emulated.emulated_manager import EmulatedLocalManager
from koala_agent.lrm.emulated.emulated_settings import EmulatedSettings, live_scheduler
from koala_agent.lrm.emulated.system import EmulatedTable
from koala_agent.lrm.local_manager import Idle, Listed, LocalManager, OnReport
from koala_agent.output_collection import OutputCollection
from koala_agent.placeholders.input_files import InputPaths
from koala_agent.placeholders.launch_settings import LaunchSettings
from koala_agent.site_access import (
    WILDCARDS,
    account_at,
    agent_addresses,
    check_installation,
    local_transport,
    mailbox_of,
    ssh_transport,
)
from koala_agent.starter_link.mailbox import Mailbox
from koala_agent.starter_link.ports import Ports
from koala_agent.state_folder import check_state, lrm_folder
from koala_agent.transport.command_budget import CommandBudget
from koala_agent.transport.interface import Transport
from koala_agent.transport.ssh import SSHTransport
from koala_agent.transport.ssh_host import SSHHosts

if TYPE_CHECKING:
    from koala_agent.metrics import AgentMetrics, Commit

COLLECT_MAX_S = 7 * 86_400.0
"""Longest wait of outputs for a daemon that is away. While it is there, the limit is an upload's.
"""

FIGURES_POLLS = 30
FIGURES_MAX_S = 60.0
"""Age of the figures of a batch system where nothing happens: so many shortest pauses between two
listings, and at most so long."""

log = get_logger()


@dataclass(frozen=True, slots=True, kw_only=True)
class LiveAgent:
    """The agent of a configuration, and what serves its metrics while it runs, if it is to."""

    agent: Agent
    serve_metrics: Callable[[], Coroutine[None, None, None]] | None = None


def live_agent(config: Config, hosts: SSHHosts, *, version: str, umask: int) -> LiveAgent:
    """Build the agent of this configuration. `hosts` are those of the process, `umask` is that of
    the processes it starts.

    Raises ConfigError and JournalError when the state directory cannot be used.
    """
    site = accepted_users(config)
    check_installation(config, is_complete=False)
    share = config.site.held_share_max
    settings = AgentSettings(
        name=config.agent.site,
        daemon=config.agent.daemon,
        limits=Limits(
            grace_s=config.site.grace_s,
            processors_max=config.site.largest_claim,
            hold_max_s=config.site.longest_hold_s,
            tickets_max=config.site.tickets_max,
            booking_ahead_s=config.site.booking_ahead_s,
            held_max=None if share is None else int(share * config.site.processors),
            users=site.users,
            users_key=site.key,
            collect_max_s=COLLECT_MAX_S,
        ),
        listen=config.starter.listen,
        port=config.starter.port,
        keep_s=config.agent.keep_s,
    )
    metrics = _metrics(config, version)
    transport = _transport(config, site, hosts, umask=umask)
    surroundings = _make_surroundings(
        config, site, transport, version=version, umask=umask, metrics=metrics
    )
    live = Agent(settings, surroundings)
    if metrics is None:
        return LiveAgent(agent=live)
    serve = partial(
        metrics.run,
        live,
        session_status=surroundings.session_status,
        disk=surroundings.disk,
        identity=surroundings.identity,
    )
    return LiveAgent(agent=live, serve_metrics=serve)


def _metrics(config: Config, version: str) -> AgentMetrics | None:
    settings = metrics_endpoint(config)
    if settings is None:
        return None
    from koala_agent.metrics import AgentMetrics  # noqa: PLC0415 - needs an extra

    return AgentMetrics(settings, version=version)


def _make_surroundings(
    config: Config,
    site: AcceptedUsers,
    transport: Transport,
    *,
    version: str,
    umask: int,
    metrics: AgentMetrics | None,
) -> Surroundings:
    state = Path(config.agent.state_dir)
    check_state(state)
    identity = None if config.agent.plain else find_identity(state, config.agent.site)
    disk = DiskSpace(
        state,
        low_bytes=int(config.agent.low_disk_mb * MB),
        ballast_bytes=int(config.agent.ballast_mb * MB),
    )
    disk.make_room_to_start()
    store = Store(state, make_room=disk.give_up_ballast)
    thread = StoreThread(store)
    session = _session(config, store)
    session_status = SessionStatus(session)
    link_events: asyncio.Queue[Event] = asyncio.Queue()
    local_reports: asyncio.Queue[Listed | Idle] = asyncio.Queue()
    launch = _launch_settings(config, site)
    commit: Commit = thread.commit
    if metrics is not None:
        metrics.restore(store.claims())
        commit = metrics.committing(thread.commit)

    def on_file_report(report: object) -> None:
        link_events.put_nowait(Reported(report))
        if metrics is not None:
            metrics.note_copy(report)

    files = Files(
        _files_settings(config, identity, disk, may_take_local=launch.shows_all),
        on_file_report,
        relay=lambda: session_status.relay,
    )
    ports = Ports(
        lambda: session_status.relay,
        Channels(identity),
        connections_max=config.site.ports_max,
        bytes_per_s=config.site.ports_rate,
    )
    manager = _local_manager(
        config,
        site,
        disk=disk,
        on_report=local_reports.put_nowait,
        umask=umask,
        transport=transport,
    )
    ssh = transport if isinstance(transport, SSHTransport) else None
    by_files = bool(launch.mailbox)
    folders = ClaimFolders(
        launch, endpoint=(lambda: ssh.agent_endpoint) if ssh and not by_files else None
    )
    inputs = InputPaths(
        replica=files.local_path,
        copy=Incoming(state / "transfers" / "incoming").path,
        folder=launch.folder,
        room_bytes=lambda: disk.room_bytes,
    )
    collection = OutputCollection(session_status, files.upload, may_leave=launch.shows_all)

    def describe() -> codec.SiteDescription:
        return _description(config, site, version=version, manager=manager, files=files)

    return Surroundings(
        close=thread.close,
        disk=disk,
        local_reports=local_reports,
        files=files,
        claims=ClaimSurroundings(
            store=store,
            commit=commit,
            manager=manager,
            folders=folders,
            input_named=inputs.named,
            prepare_input=inputs.prepare,
            archive=lambda hold: _archive(files, hold),
            collect=collection.collect,
            room_bytes=lambda: disk.room_bytes,
            mailbox=Mailbox(transport, launch.mailbox) if by_files else None,
        ),
        session=session,
        link_events=link_events,
        stream=_streams(config, identity, describe).open,
        session_status=session_status,
        identity=identity,
        log_source=folders.log_source,
        forward_starters=ssh.run_beside if ssh else None,
        helpers=(
            ports.run,
            *((site.switches.run,) if isinstance(site.switches, AccountSwitches) else ()),
        ),
        carry=ports.carry,
    )


def _session(config: Config, store: Store) -> Session:
    return Session(
        epoch=store.epoch,
        timing=Timing(silence_s=config.agent.silence_s),
        random=Random(os.urandom(8)),
        now=clock.now(),
        mark=store.watermark,
    )


def _streams(
    config: Config, identity: IdentityFile | None, describe: Callable[[], codec.SiteDescription]
) -> StreamFactory:
    return StreamFactory(
        target=config.agent.daemon,
        encode=lambda message: codec.encode(message, describe),
        decode=codec.decode,
        mark=watermark_of,
        identity=identity,
    )


async def _archive(files: Files, hold: messages.Hold) -> Path | None:
    """Wait for the staged files of a claim's program."""
    return await files.arrived(hold.archive) if hold.archive else None


def _launch_settings(config: Config, site: AcceptedUsers) -> LaunchSettings:
    return LaunchSettings(
        root=Path(config.agent.state_dir) / "claims",
        site=config.agent.site,
        address=_address(config),
        agents=_agent_addresses(config),
        mailbox=mailbox_of(config),
        python=config.starter.python,
        rules=config.system.rules,
        launcher=config.lrm.launcher,
        shared=config.starter.shared,
        scratch=config.starter.scratch,
        executables=config.site.executables,
        variables=config.site.variables,
        accounts=site.accounts,
    )


def _agent_addresses(config: Config) -> tuple[str, ...]:
    """Return the addresses that starters try; none where the transport finds them."""
    if config.starter.addresses or config.transport.kind == "ssh":
        return config.starter.addresses
    return agent_addresses(config.starter.listen)


def _transport(config: Config, site: AcceptedUsers, hosts: SSHHosts, *, umask: int) -> Transport:
    if config.transport.kind == "ssh":
        return ssh_transport(config, hosts)
    return local_transport(config, switches=site.switches, umask=umask)


def _local_manager(
    config: Config,
    site: AcceptedUsers,
    *,
    disk: DiskSpace,
    on_report: OnReport,
    umask: int,
    transport: Transport,
) -> LocalManager:
    """Return the site's local manager; jobs get this umask."""
    state = lrm_folder(Path(config.agent.state_dir))
    if isinstance(config.lrm, EmulatedTable):
        settings = EmulatedSettings(
            processors=config.site.processors,
            gpus=config.site.gpus,
            state_directory=state,
            discipline=live_scheduler(config.lrm.discipline),
            fault_rate=config.lrm.fault_rate,
            seed=config.lrm.seed,
            load=local_load(config, speed=config.lrm.speed),
            may_kill_local=config.lrm.may_kill_local,
            books=config.site.booking_ahead_s > 0,
            environment=environments.of_programs(outer=outer_job_variables(os.environ)),
            umask=umask,
            switches=site.switches,
            make_room=disk.give_up_ballast,
        )
        return EmulatedLocalManager(settings, on_report=on_report, clock=clock.now)
    if config.system.notice:
        log.warning("dialect.not_tested", kind=config.lrm.kind, reason=config.system.notice)
    poll_s = config.lrm.poll_s
    batch = BatchSettings(
        processors=config.site.processors,
        state_directory=state,
        scope=secrets.token_hex(4),
        poll_s=poll_s,
        figures_s=max(poll_s, min(FIGURES_POLLS * poll_s, FIGURES_MAX_S)),
        account=account_at(config),
        accounts=tuple(site.switches),
        is_gate_probed=config.lrm.gate_probe,
        books=config.site.booking_ahead_s > 0,
        make_room=disk.give_up_ballast,
    )
    per_minute = config.lrm.commands_per_minute
    return BatchManager(
        batch,
        dialect_of(config),
        transport,
        on_report=on_report,
        clock=clock.now,
        budget=transport.budget
        if isinstance(transport, SSHTransport)
        else CommandBudget(per_minute, clock=clock.now),
    )


def _description(
    config: Config, site: AcceptedUsers, *, version: str, manager: LocalManager, files: Files
) -> codec.SiteDescription:
    """Return what the site says of itself when it registers."""
    facts = messages.Facts(
        processors=config.site.processors,
        grace_s=config.site.grace_s,
        starts_after_stop=manager.starts_after_stop,
        address=_address(config) if config.system.is_emulated else config.site.address,
        serves=_served_address(config, files.port),
        owner=site.owner,
        users=tuple(sorted(site.accounts or ())),
        honours=manager.honours,
        may_kill_local=isinstance(config.lrm, EmulatedTable) and config.lrm.may_kill_local,
        mips=config.site.mips,
        slots=config.site.slots or 0,
        notice=config.system.notice,
        system="" if config.system.is_emulated else config.system.title,
        gate=manager.gate,
        books=manager.books,
        hold_max_s=longest_s if math.isfinite(longest_s := config.site.longest_hold_s) else 0.0,
        tickets_max=config.site.tickets_max or 0,
        held_share_max=config.site.held_share_max or 0.0,
        forwards=not mailbox_of(config) and config.site.ports_max > 0,
    )
    name = SiteName(config.agent.site)
    return codec.SiteDescription(version=version, site=name, facts=facts)


def _served_address(config: Config, port: int | None) -> str:
    """Return the address at which other agents reach our file server; a wildcard is none."""
    files = config.files
    if files.serve is None or port is None:
        return ""
    host = files.serve.rpartition(":")[0]
    if files.address:
        host = f"[{files.address}]" if ":" in files.address else files.address
    elif host in WILDCARDS:
        host = _address(config)
    return f"{host}:{port}"


def _address(config: Config) -> str:
    return config.site.address or "127.0.0.1"


def dialect_of(config: Config) -> Dialect:
    """Return the dialect of the site's batch system, which is not the emulated one."""
    native = config.lrm.native
    if native is None:  # a site of one user allows all, one that others share nothing unasked
        native = (EVERY,) if config.accounts.mode == "user" else ()
    make = config.system.dialect
    assert make is not None, config.lrm.kind
    user = "" if config.accounts.mode == "site" else account_at(config)
    settings = DialectSettings(native=native, gpus=config.site.gpus, user=user)
    return guarded(make(config.lrm, settings))


def _files_settings(
    config: Config, identity: IdentityFile | None, disk: DiskSpace, *, may_take_local: bool
) -> FilesSettings:
    return FilesSettings(
        site=config.agent.site,
        store=Path(config.files.store),
        state=Path(config.agent.state_dir) / "transfers",
        serve=config.files.serve,
        identity=identity,
        rates=BandwidthLimits(default=config.files.rate, by_site=config.files.rates),
        fetches_max=config.files.concurrent,
        readers_max=2 * config.files.concurrent,
        room_bytes=lambda: disk.room_bytes,
        may_take_local=may_take_local,
        added_bytes_max=None if config.files.added_mb is None else config.files.added_mb * MB,
    )
