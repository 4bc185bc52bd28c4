"""The daemon's configuration: parse TOML into frozen structs and validate it once.

Every error is a ConfigError that names the file, the key, the value and what is allowed. Relative
paths are relative to the file's folder. `docs/operating` and the examples in `deploy/` show it
in use:

    [daemon]        listen, address, agents, plain, certificate_days, state_dir, spool, open,
                    log_level, beat_s, silence_s, low_disk_mb, ballast_mb
    [parameters]    any of koala.core.model.parameters, by name
    [policies]      placement, claiming, deadlines, tickets, queueing, resizing, progress: names
    [sites.NAME]    owner; over plain text, when any is listed, only these may register unless
                    daemon.open is true
    [links]         bandwidth.FROM.TO: bytes a second, as long as nothing better was observed;
                    bookable.FROM.TO: what of them placement policies may book
    [relay]         listen, address (as agents reach it), bytes_per_s
    [journal]       keep_days and keep_past_jobs_days (0: without limit), keep_jobs,
                    keep_jobs_hours, snapshot_events
    [limits]        quotas: see LimitsTable
    [bus]           url
    [notify]        smtp, sender, security, user, password_file, webhooks, per_user_hour
    [metrics]       listen, relay, certificate, key, token_file, insecure, sites_max
    [traces]        endpoint, insecure
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from pathlib import Path
from typing import Annotated, Any, Literal
from urllib.parse import urlsplit

import msgspec

from koala.common.identity.private_files import read_private
from koala.common.identity.tls import is_loopback
from koala.common.metrics.settings import MetricsSettings, MetricsTable, metrics_settings
from koala.common.runtime.foreign.guards import LIVE_LIMIT_S, Conduct, Replacement
from koala.common.runtime.paths import written_path, written_text
from koala.common.runtime.settings_file import (
    Endpoint,
    Megabytes,
    Positive,
    SiteText,
    Table,
    check_port,
    convert,
    matching,
    parse_toml,
    unknown_key,
)
from koala.common.runtime.software import MQTT, OTEL, missing_text
from koala.core.model.parameters import NAMES, Parameters
from koala.core.model.values import SiteName, UserName
from koala.core.policy_api import Policies
from koala.errors import ConfigError
from koala.policies import chosen

MB = 1_000_000
DEFAULT_LISTEN = "127.0.0.1:7740"
CERTIFICATE_DAYS_MIN = 0.05
"""72 minutes. Agents renew in the last third, which is 24 minutes. Clocks may differ by 5
(`SKEW_S`). An agent pauses for 10 after a renewal, and between failed tries for a tenth of the
remaining time."""

Seconds = Annotated[float, msgspec.Meta(ge=0.05, le=3600)]


class DaemonTable(Table, frozen=True):
    """Addresses of the daemon (port 0: any), its state folder, and the supervision of its links.

    `address` is the one that credentials and join tokens carry, where it is not that of `listen`.
    `agents` is the address for agents, which have a certificate. A site's certificate
    is valid for `certificate_days`. `plain` disables encryption and authentication.
    """

    state_dir: str
    listen: Endpoint = DEFAULT_LISTEN
    address: Endpoint | None = None
    agents: Endpoint | None = None
    plain: bool = False
    certificate_days: Annotated[float, msgspec.Meta(ge=CERTIFICATE_DAYS_MIN, le=3650)] = 30.0
    spool: str = ""
    open: bool | None = None
    log_level: Literal["debug", "info", "warning", "error"] = "info"
    beat_s: Seconds = 2.0
    silence_s: Seconds = 15.0
    low_disk_mb: Megabytes = 64.0
    ballast_mb: Megabytes = 16.0


class PoliciesTable(Table, frozen=True):
    """Name of the policy in each slot."""

    placement: str = "CF"
    claiming: str = "ICP"
    deadlines: str = "RPP"
    tickets: str = "book"
    queueing: str = "koala"
    resizing: str = "FPSMA"
    progress: str = "free"


class SiteTable(Table, frozen=True):
    """A site that may register; with an `owner`, only jobs of that user see it."""

    owner: str = ""


class LinksTable(Table, frozen=True):
    """Known and bookable bandwidth between sites, in bytes a second.

    A link from a site to itself leads from its storage to its processors.
    """

    bandwidth: dict[SiteText, dict[SiteText, Positive]] = msgspec.field(default_factory=dict)
    bookable: dict[SiteText, dict[SiteText, Positive]] = msgspec.field(default_factory=dict)


class RelayTable(Table, frozen=True):
    """The relay of files. `address` is its host as agents reach it, `bytes_per_s` its limit."""

    listen: Endpoint | None = None
    address: str = ""
    bytes_per_s: Positive | None = None


class JournalTable(Table, frozen=True):
    """Retention of events, jobs and snapshots.

    - `keep_days`: for events that no start needs (0: without limit).
    - `keep_past_jobs_days`: for jobs in the archive (0: without limit).
    - `keep_jobs`, `keep_jobs_hours`: for ended jobs in memory.
    - `snapshot_events`: number of events between snapshots.
    """

    keep_days: Annotated[float, msgspec.Meta(ge=0, le=100_000)] = 0.0
    keep_past_jobs_days: Annotated[float, msgspec.Meta(ge=0, le=100_000)] = 0.0
    keep_jobs: Annotated[int, msgspec.Meta(ge=0, le=10_000_000)] = 10_000
    keep_jobs_hours: Annotated[float, msgspec.Meta(ge=0, le=100_000)] = 24.0
    snapshot_events: Annotated[int, msgspec.Meta(ge=100, le=1_000_000_000)] = 20_000


Count = Annotated[int, msgspec.Meta(ge=1, le=10_000_000)]
Rate = Annotated[float, msgspec.Meta(ge=0, le=1e9)]


class LimitsTable(Table, frozen=True):
    """Quotas. A request over a quota is rejected with its name and the time to retry.

    - `jobs`: unfinished jobs; `descriptions_mb`: the total size of their descriptions.
    - `calls_per_user`: concurrent calls, those that wait included.
    - `watchers`: all clients that follow events or logs.
    - `submissions_per_s`: long-term rate of a user's submissions (0: no limit).
    - `files_mb_per_user`: the size of a user's files at all sites (`koala files add`);
      `uploads_mb_per_user`: that of the user's uploads in the spool.
    - `reports_per_s`: rate at which an agent's reports are read; an agent that keeps exceeding it
      is disconnected.
    """

    jobs: Count = 200_000
    jobs_per_user: Count = 100_000
    descriptions_mb: Count = 1_000
    descriptions_mb_per_user: Count = 500
    submissions_per_s: Rate = 0.0
    calls_per_user: Count = 1_000
    watchers: Count = 1_000
    watchers_per_user: Count = 500
    files_mb_per_user: Count = 100_000
    uploads_mb_per_user: Count = 20_000
    sites: Count = 2_000
    reports_per_s: Annotated[float, msgspec.Meta(ge=1, le=1e9)] = 500.0


class BusTable(Table, frozen=True):
    """An MQTT broker that receives every event."""

    url: str


class NotifyTable(Table, frozen=True):
    """The mail server of notifications, the beginnings of webhooks, and a user's limit an hour."""

    smtp: Endpoint | None = None
    sender: str = ""
    security: Literal["none", "starttls", "tls"] = "starttls"
    user: str = ""
    password_file: str = ""
    webhooks: tuple[
        Annotated[
            str, matching(r"^https?://[^\s/?#@]+/\S*$", "https://HOST/, or a longer beginning")
        ],
        ...,
    ] = ()
    per_user_hour: Annotated[int, msgspec.Meta(ge=1, le=100_000)] = 100


@dataclass(frozen=True, slots=True, kw_only=True)
class MailServer:
    """SMTP server, `security` none, starttls or tls; without a user it asks for no login."""

    host: str
    port: int
    sender: str
    security: str = "starttls"
    user: str = ""
    password: str = field(default="", repr=False)


class DaemonMetricsTable(MetricsTable, frozen=True):
    """Metrics of the daemon, and at the address `relay` those of its relay."""

    relay: Endpoint | None = None


class TracesTable(Table, frozen=True):
    """OTLP receiver of the traces of jobs."""

    endpoint: Annotated[
        str, matching(r"^https?://[^\s/]+(/\S*)?$", "an address with http:// or https://")
    ]
    insecure: bool = False


class File(Table, frozen=True):
    """The whole file."""

    daemon: DaemonTable
    parameters: dict[str, Any] = msgspec.field(default_factory=dict)
    policies: PoliciesTable = PoliciesTable()
    sites: dict[SiteText, SiteTable] = msgspec.field(default_factory=dict)
    links: LinksTable = LinksTable()
    relay: RelayTable = RelayTable()
    journal: JournalTable = JournalTable()
    limits: LimitsTable = LimitsTable()
    bus: BusTable | None = None
    notify: NotifyTable = NotifyTable()
    metrics: DaemonMetricsTable | None = None
    traces: TracesTable | None = None


class CoreSettings(msgspec.Struct, frozen=True, kw_only=True):
    """The part of the configuration that belongs to the core's state.

    `policy_names` has (slot, name) of each policy; `links` and `bookable` have (from, to, bytes a
    second) of each link.
    """

    parameters: Parameters
    policies: Policies
    policy_names: tuple[tuple[str, str], ...]
    links: tuple[tuple[SiteName, SiteName, float], ...] = ()
    bookable: tuple[tuple[SiteName, SiteName, float], ...] = ()


class Config(CoreSettings, frozen=True, kw_only=True):
    """The validated configuration of a daemon: tables of the file, and what is made of others.

    Paths are absolute; `agents` and `relay_listen` have the addresses that the file leaves out.
    """

    daemon: DaemonTable
    relay: RelayTable
    journal: JournalTable
    limits: LimitsTable
    notify: NotifyTable
    state_dir: Path
    spool: Path
    agents: str
    relay_listen: str
    certificate_s: float
    low_disk_bytes: int
    ballast_bytes: int
    sites: dict[SiteName, UserName | None]
    is_open: bool
    bus_url: str
    mail: MailServer | None = None
    metrics: MetricsSettings | None = None
    relay_metrics: MetricsSettings | None = None
    traces: str = ""


def read_config(path: Path) -> Config:
    """Read the configuration from a file. Raises ConfigError."""
    text = written_text(path)
    return parse_config(text, source=str(path), folder=path.resolve().parent)


def parse_config(text: str, *, source: str, folder: Path) -> Config:
    """Parse the configuration from a text. Raises ConfigError."""
    file = convert(parse_toml(text, source=source), File, source=f"{source}: ")
    for key, endpoint in (
        ("daemon.listen", file.daemon.listen),
        ("daemon.agents", file.daemon.agents),
        ("relay.listen", file.relay.listen),
    ):
        check_port(source, key, endpoint)
    if file.daemon.beat_s * 2 > file.daemon.silence_s:
        raise ConfigError(
            f"{source}: daemon.silence_s = {file.daemon.silence_s:g} (expected at least"
            f" 2 x daemon.beat_s = {2 * file.daemon.beat_s:g})"
        )
    _check_plain(file, source)
    return _assemble(file, source, folder)


def _check_plain(file: File, source: str) -> None:
    """Reject plain text on any but a loopback address: a plain port has no access control."""
    if not file.daemon.plain:
        return
    for key, endpoint in (("daemon", file.daemon.listen), ("relay", file.relay.listen)):
        if endpoint is not None and not is_loopback(endpoint):
            raise ConfigError(
                f"{source}: {key}.listen = {endpoint!r} with daemon.plain = true (expected a"
                " loopback address, as 127.0.0.1:7740, since everybody who reaches a plain port"
                " may do everything)"
            )
    if file.daemon.agents is not None:
        raise ConfigError(
            f"{source}: daemon.agents = {file.daemon.agents!r} with daemon.plain = true (expected"
            " nothing, since plain text knows no certificates)"
        )


def _report_replacement(replacement: Replacement) -> None:
    from koala.common.runtime.structured_log import get_logger  # noqa: PLC0415 - simulations import this and never log

    get_logger(__name__).error(
        "policy.replaced",
        slot=replacement.slot,
        policy=replacement.policy,
        by=replacement.by,
        reason=str(replacement.fault),
    )


LIVE = Conduct(limit_s=LIVE_LIMIT_S, report=_report_replacement)
"""Conduct towards policies of other packages."""


def _assemble(file: File, source: str, folder: Path) -> Config:
    daemon = file.daemon
    state_dir = folder / written_path(daemon.state_dir, key=f"{source}: daemon.state_dir")
    spool = written_path(daemon.spool or "spool", key=f"{source}: daemon.spool")
    host = daemon.listen.rpartition(":")[0]
    names: dict[str, str] = msgspec.to_builtins(file.policies)
    try:
        policies = chosen(LIVE, **names)
    except ConfigError as error:
        raise ConfigError(f"{source}: {error}") from error
    return Config(
        daemon=daemon,
        relay=file.relay,
        journal=file.journal,
        limits=file.limits,
        notify=file.notify,
        state_dir=state_dir,
        spool=state_dir / spool,
        agents=daemon.agents or f"{host}:0",
        relay_listen=file.relay.listen or f"{host}:0",
        certificate_s=daemon.certificate_days * 86_400.0,
        low_disk_bytes=int(daemon.low_disk_mb * MB),
        ballast_bytes=int(daemon.ballast_mb * MB),
        parameters=_parameters(file.parameters, source),
        policies=policies,
        policy_names=tuple(names.items()),
        links=_links("bandwidth", file.links.bandwidth, source),
        bookable=_links("bookable", file.links.bookable, source),
        sites={
            SiteName(name): UserName(site.owner) if site.owner else None
            for name, site in sorted(file.sites.items())
        },
        is_open=not file.sites if daemon.open is None else daemon.open,
        bus_url=_bus_url(file.bus, source),
        mail=_mail(file.notify, source, folder),
        metrics=_endpoint(file.metrics, "listen", source, folder, state_dir / "metrics.url"),
        relay_metrics=_endpoint(
            file.metrics, "relay", source, folder, state_dir / "relay-metrics.url"
        ),
        traces=_traces(file.traces, source),
    )


def _endpoint(
    table: DaemonMetricsTable | None, key: str, source: str, folder: Path, url_file: Path
) -> MetricsSettings | None:
    """Return the settings of one address of metrics; None without it. Raises ConfigError."""
    listen = None if table is None else getattr(table, key)
    if table is None or listen is None:
        return None
    return metrics_settings(
        table,
        key=f"metrics.{key}",
        listen=listen,
        source=source,
        folder=folder,
        url_file=url_file,
    )


def _bus_url(table: BusTable | None, source: str) -> str:
    """Return the address of the broker; empty without it. Raises ConfigError."""
    if table is not None and (text := missing_text("mqtt", MQTT)):
        raise ConfigError(f"{source}: [bus] {text}")
    return "" if table is None else table.url


def _mail(table: NotifyTable, source: str, folder: Path) -> MailServer | None:
    """Return the mail server of notifications; None without it. Raises ConfigError."""
    if table.smtp is None:
        return None
    if not table.sender:
        raise ConfigError(
            f"{source}: notify.sender is missing (expected an address, with notify.smtp)"
        )
    password = ""
    if table.password_file:
        path = folder / written_path(table.password_file, key=f"{source}: notify.password_file")
        try:
            password = read_private(path).decode().strip()
        except OSError as error:
            raise ConfigError(f"{path}: cannot be read: {error.strerror}") from error
    host, _, port = table.smtp.rpartition(":")
    return MailServer(
        host=host.strip("[]"),
        port=int(port),
        sender=table.sender,
        security=table.security,
        user=table.user,
        password=password,
    )


def _traces(table: TracesTable | None, source: str) -> str:
    """Return the address of the receiver of traces; empty without it. Raises ConfigError."""
    if table is None:
        return ""
    if text := missing_text("otel", OTEL):
        raise ConfigError(f"{source}: [traces] {text}")
    try:
        host = urlsplit(table.endpoint).hostname
    except ValueError as error:
        raise ConfigError(f"{source}: traces.endpoint = {table.endpoint!r}: {error}") from error
    is_plain = table.endpoint.startswith("http:")
    if is_plain and not (table.insecure or is_loopback(f"{host}:0")):
        raise ConfigError(
            f"{source}: traces.endpoint = {table.endpoint!r} (expected https://, or a loopback"
            " address, as http://127.0.0.1:4318/v1/traces); or traces.insecure = true, if names of"
            " users and jobs may be read on the way"
        )
    return table.endpoint


def _parameters(table: dict[str, Any], source: str) -> Parameters:
    for name, value in table.items():
        if name not in NAMES:
            raise ConfigError(f"{source}: {unknown_key(f'parameters.{name}', NAMES)}")
        if isinstance(value, float) and math.isnan(value):
            raise ConfigError(f"{source}: parameters.{name} = nan (expected a number)")
    try:
        return convert(table, Parameters, source="")
    except ConfigError as error:
        raise ConfigError(f"{source}: parameters.{error}") from error


def _links(
    name: str, table: dict[SiteText, dict[SiteText, Positive]], source: str
) -> tuple[tuple[SiteName, SiteName, float], ...]:
    links = []
    for start, targets in sorted(table.items()):
        for end, bandwidth in sorted(targets.items()):
            if not math.isfinite(bandwidth):
                key = f"links.{name}.{start}.{end}"
                raise ConfigError(f"{source}: {key} = {bandwidth} (expected a finite number)")
            links.append((SiteName(start), SiteName(end), bandwidth))
    return tuple(links)
