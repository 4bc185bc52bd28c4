"""The agent's configuration: TOML parsed into frozen structs and validated once.

Every error is a `ConfigError` that names the file, the key, the value and what is allowed. The file
wins over any request of a daemon: `site.largest_claim` and `site.longest_hold_s` are the owner's
limits, and a claim beyond them is refused with that reason. Durations are in seconds, rates in
bytes per second.
"""

from __future__ import annotations

import difflib
import math
import re
import tomllib
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Annotated, Literal, NoReturn, get_args, get_type_hints

import msgspec

from koala.errors import ConfigError
from koala.identity.tls import is_loopback
from koala.metrics.settings import MetricsSettings, MetricsTable, metrics_settings
from koala.runtime.paths import written_path, written_text

Count = Annotated[int, msgspec.Meta(ge=1, le=1_000_000)]
Positive = Annotated[float, msgspec.Meta(gt=0)]
Amount = Annotated[float, msgspec.Meta(ge=0)]
Share = Annotated[float, msgspec.Meta(ge=0, le=1)]
Megabytes = Annotated[float, msgspec.Meta(ge=0, le=1_000_000)]
Rate = Annotated[float, msgspec.Meta(gt=0)]
SiteNameText = Annotated[str, msgspec.Meta(pattern=r"^[A-Za-z0-9][A-Za-z0-9._-]{0,63}$")]
Endpoint = Annotated[str, msgspec.Meta(pattern=r"^[^\s:]+:\d{1,5}$|^\[[0-9A-Fa-f:]+\]:\d{1,5}$")]
"""host:port; an IPv6 address stands in brackets."""
SITE_PYTHON = "python3"
"""Interpreter of the starters at a site behind ssh, where none is given."""
SSH_POLL_S = 5.0
"""Default of lrm.poll_s behind ssh. Starters report by themselves; polls only repair."""
HOST = r"^[^\s:/]+$|^[0-9A-Fa-f:]+$"
HostText = Annotated[str, msgspec.Meta(pattern=rf"^$|{HOST}")]


UserText = Annotated[str, msgspec.Meta(min_length=1, max_length=256)]
AccountText = Annotated[str, msgspec.Meta(pattern=r"^[A-Za-z_][A-Za-z0-9_.-]{0,63}$")]


HostNameText = Annotated[str, msgspec.Meta(pattern=r"^$|^[^\s-][^\s]*$", max_length=256)]
"""Name for ssh; one with a dash at its head would be an option."""


VariableText = Annotated[str, msgspec.Meta(pattern=r"^[A-Za-z_*][A-Za-z0-9_*]{0,127}$")]
"""A variable of the environment, or several: * is any text."""


class Table(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """Table of the file; an unknown key is an error."""


class AgentTable(Table, frozen=True):
    """Identity of this agent, its daemon and its state directory.

    A daemon that is silent for `silence_s` is disconnected and dialled again. With `plain` nothing
    is encrypted, and the daemon is on this machine. Work folders of ended and acknowledged claims
    are removed after `keep_s`. With less than `low_disk_mb` free at `state_dir` no new claim is
    accepted; a ballast file of `ballast_mb` there is deleted when a record finds no room at all.
    """

    site: SiteNameText
    daemon: Endpoint
    state_dir: str
    plain: bool = False
    silence_s: Annotated[float, msgspec.Meta(ge=0.2, le=3600)] = 15.0
    keep_s: Amount = 3600.0
    low_disk_mb: Megabytes = 32.0
    ballast_mb: Megabytes = 8.0
    log_level: Literal["debug", "info", "warning", "error"] = "info"


class SiteTable(Table, frozen=True):
    """Resources of the site, and its owner's limits.

    `address` is how other sites reach programs of this site; empty means the address from which
    their starters check in, and this machine for an emulated site. With `owner`, only this user's
    jobs see the site. `mips` is the speed of one processor, for placement by speed; `slots` bounds
    the claims that the site has at a time. `gpus` of an emulated site stand for real ones; those of
    a Grid Engine cell are all that it has; Slurm lists its own. With `executables`, programs must
    lie below these folders, and jobs may set no environment variables but `variables`.
    """

    processors: Count
    grace_s: Positive = 5.0
    address: HostText = ""
    owner: str = ""
    longest_hold_s: Positive = math.inf
    largest_claim: Count | None = None
    mips: Positive = 1000.0
    gpus: Annotated[int, msgspec.Meta(ge=0, le=1_000_000)] = 0
    slots: Count | None = None
    executables: tuple[str, ...] = ()
    variables: tuple[VariableText, ...] = ()


class AccountsTable(Table, frozen=True):
    """Users whose claims are accepted, and the accounts that they run as.

    - Mode `user`: the claims of one grid user, by default the one with the account's name, run as
      the agent's own account.
    - Mode `anyone`: everybody's claims run as the agent's own account; for grids of a single person
      and for trials.
    - Mode `site`: the claims of the users in `map`, each as its account. The account's uid must be
      at least `uid_min`, or its name must be in `system`. `become` are the words before a command
      of an account, none for a root agent, which switches by itself.
    """

    mode: Literal["user", "site", "anyone"] = "user"
    user: str = ""
    map: dict[UserText, AccountText] = {}
    uid_min: Annotated[int, msgspec.Meta(ge=1)] = 1000
    system: tuple[AccountText, ...] = ()
    become: tuple[str, ...] = ()


ACCOUNT_KEYS: dict[str, tuple[str, ...]] = {
    "user": ("user",),
    "site": ("map", "uid_min", "system", "become"),
    "anyone": (),
}
"""Valid keys of each mode."""


class LRMTable(Table, frozen=True):
    """Local manager: an emulated one, or the commands of a real batch system.

    An emulated one is a queue of `site.processors` with real processes; `speed` divides the
    durations of its synthetic local users, `fault_rate` is the share of claims that fail on
    purpose, `seed` draws both; with `may_kill_local` the youngest local jobs are killed when a job
    with a deadline finds no other room. A batch system is polled every `poll_s`; each of its
    commands may take `command_limit_s`; `environment` selects the installation (SLURM_CONF;
    SGE_ROOT, SGE_CELL, ...); `options` are added to each submission; `launcher` starts the ranks of
    an MPI program. `native` lists the options that jobs may pass on to the batch system, "*" all;
    by default all with accounts.mode = "user", else none. `gpu_resource` is the complex that counts
    a cell's GPUs. Of an HTCondor pool only machines that meet `requirements` are used.
    """

    kind: Literal["emulated", "slurm", "gridengine", "htcondor", "pbs"] = "emulated"
    discipline: str = "fcfs"
    speed: Positive = 1.0
    fault_rate: Share = 0.0
    seed: int = 0
    may_kill_local: bool = False
    account: str = ""
    partition: str = ""
    qos: str = ""
    queue: str = ""
    parallel_environment: str = ""
    project: str = ""
    requirements: str = ""
    gpu_resource: Annotated[str, msgspec.Meta(pattern=r"^[A-Za-z_][A-Za-z0-9_.]{0,63}$")] = "gpu"
    options: tuple[str, ...] = ()
    native: tuple[str, ...] | None = None
    launcher: tuple[str, ...] = ()
    environment: dict[str, str] = {}
    poll_s: Annotated[float, msgspec.Meta(ge=0.05, le=3600)] = 1.0
    command_limit_s: Annotated[float, msgspec.Meta(ge=0.1, le=600)] = 15.0


_BATCH = ("options", "native", "launcher", "environment", "poll_s", "command_limit_s")
LRM_KEYS: dict[str, tuple[str, ...]] = {
    "emulated": ("discipline", "speed", "fault_rate", "seed", "may_kill_local"),
    "slurm": ("account", "partition", "qos", *_BATCH),
    "gridengine": ("queue", "parallel_environment", "project", "gpu_resource", *_BATCH),
    "htcondor": ("project", "requirements", *_BATCH),
    "pbs": ("account", "project", "queue", *_BATCH),
}
"""Valid keys of each kind."""

GPU_LISTERS = {"slurm": "Slurm", "htcondor": "HTCondor", "pbs": "PBS"}
"""Batch systems that list their GPUs."""


class LoadTable(Table, frozen=True):
    """Synthetic local users of an emulated site, before `lrm.speed`; no arrivals means none.

    Sizes are drawn from D(q) between `size_min` and `size_max` (8, or all processors when the site
    has fewer), run times are exponential.
    """

    arrivals_per_hour: Amount = 0.0
    run_mean_s: Positive = 600.0
    run_max_s: Positive = 36_000.0
    size_q: Positive = 0.9
    size_min: Count = 1
    size_max: Count | None = None
    estimate_factor_max: Annotated[float, msgspec.Meta(ge=1)] = 3.0
    waiting_max: Count = 100


class FilesTable(Table, frozen=True):
    """Logical files of the site, and how they are served.

    `store` is the folder of replicas, relative to the state directory. `serve` opens a port for
    other agents; without it copies go through the daemon's relay. `address` is the host at which
    they reach that port, if it is not the host in `serve`. `rate` limits every transfer in bytes
    per second, `rates` those with single sites. `added_mb` limits all files that users add with
    `koala files add`; none means no limit, and 0 that the site takes none.
    """

    store: str = "files"
    serve: Endpoint | None = None
    address: HostText = ""
    rate: Rate | None = None
    rates: dict[str, Rate] = {}
    concurrent: Annotated[int, msgspec.Meta(ge=1, le=64)] = 4
    added_mb: Annotated[int, msgspec.Meta(ge=0)] | None = None


class StarterTable(Table, frozen=True):
    """Addresses at which starters reach this agent, and the interpreter that runs them on compute
    nodes.

    `addresses` are tried in turn; none means `listen`, or this machine's name. `port` 0 selects a
    free port, the same after each restart. Without a `shared` file system batch jobs carry
    everything that a starter needs, work in a folder of their own below `scratch`, and transfer
    files over the starter's connection. With line `files` nobody dials: messages go through the
    folder `mailbox`, which this machine (or the login node behind ssh) and the compute nodes share;
    a relative one begins at the home directory, none means one in the state directory.
    """

    listen: Annotated[str, msgspec.Meta(min_length=1)] = "127.0.0.1"
    port: Annotated[int, msgspec.Meta(ge=0, le=65535)] = 0
    addresses: tuple[Annotated[str, msgspec.Meta(pattern=HOST)], ...] = ()
    python: Annotated[str, msgspec.Meta(min_length=1)] | None = None
    shared: bool = True
    scratch: Annotated[str, msgspec.Meta(pattern=r"^$|^/[^\n]*$")] = ""
    line: Literal["tcp", "files"] = "tcp"
    mailbox: Annotated[str, msgspec.Meta(pattern=r"^$|^[^~\n\0][^\n\0]*$", max_length=1024)] = ""


DIALLED_KEYS = ("listen", "port", "addresses")
"""Keys of the starter's table that mean something where starters dial the agent."""


class TransportTable(Table, frozen=True):
    """Access to the site's batch system: on this machine, or at a host by ssh.

    With kind `ssh` the agent runs anywhere. `host` is a name of your ssh configuration, which
    decides about user, keys, jump hosts; `options` are more words for ssh. `control` is the socket
    of a shared connection that you keep yourself (ControlPath); empty for one of the agent's own.
    `listen` is the address at which the host opens the port of the starters, "*" for all.
    `commands_per_minute` bounds the processes that the agent starts at the host.
    """

    kind: Literal["local", "ssh"] = "local"
    host: HostNameText = ""
    options: tuple[str, ...] = ()
    control: str = ""
    listen: Annotated[str, msgspec.Meta(min_length=1, pattern=r"^\*$|" + HOST)] = "*"
    commands_per_minute: Annotated[int, msgspec.Meta(ge=6, le=60_000)] = 120


TRANSPORT_KEYS: dict[str, tuple[str, ...]] = {
    "local": (),
    "ssh": ("host", "options", "control", "listen", "commands_per_minute"),
}
"""Valid keys of each kind."""


class Config(Table, frozen=True):
    """The whole file. Metrics are served only with their table."""

    agent: AgentTable
    site: SiteTable
    accounts: AccountsTable = AccountsTable()
    lrm: LRMTable = LRMTable()
    load: LoadTable = LoadTable()
    files: FilesTable = FilesTable()
    starter: StarterTable = StarterTable()
    metrics: MetricsTable | None = None
    transport: TransportTable = TransportTable()


def read_config(path: Path) -> Config:
    """Read the configuration from a file. Raises ConfigError."""
    text = written_text(path)
    return parse_config(text, source=str(path), folder=path.resolve().parent)


def parse_config(text: str, *, source: str, folder: Path) -> Config:
    """Parse a configuration; relative paths are relative to `folder`. Raises ConfigError."""
    try:
        tree = tomllib.loads(text)
    except (ValueError, RecursionError) as error:  # of TOML, or of its numbers and depth
        message = f"{source}: not TOML: {error}"
        raise ConfigError(message) from error
    try:
        config = msgspec.convert(tree, Config)
    except msgspec.ValidationError as error:
        raise ConfigError(f"{source}: {_explain(str(error), tree)}") from error
    _check(config, source)
    _check_accounts(config, source, given=tree.get("accounts", {}))
    if config.accounts.mode == "site":
        config = _apart(config, source, given=tree.get("starter", {}))
    _check_manager(config, source, given=tree.get("lrm", {}))
    if config.transport.kind == "ssh" or "transport" in tree:
        config = _by_transport(config, source, tree)
    _check_line(config, source, given=tree.get("starter", {}))
    return _with_paths(config, source, folder)


def _by_transport(config: Config, source: str, tree: Mapping[str, object]) -> Config:
    """Check the transport table, and set what is different for a site behind ssh: its machines see
    none of the agent's folders, and its batch system is asked less often."""
    transport = config.transport
    tables = {name: table for name, table in tree.items() if isinstance(table, dict)}
    for key in tables.get("transport", {}):
        if key != "kind" and key not in TRANSPORT_KEYS[transport.kind]:
            allowed = ", ".join(TRANSPORT_KEYS[transport.kind]) or "none"
            message = (
                f"{source}: transport.{key} means nothing with kind = {transport.kind!r}: allowed"
                f" are {allowed}"
            )
            raise ConfigError(message)
    if transport.kind == "local":
        return config
    if not transport.host:
        allowed = "a host of your ssh configuration, as in host = 'atlas'"
        _refuse(source, key="transport.host", value="", allowed=allowed)
    for key, value, is_right, allowed in (
        (
            "lrm.kind",
            config.lrm.kind,
            config.lrm.kind != "emulated",
            "slurm, gridengine, htcondor or pbs",
        ),
        ("accounts.mode", config.accounts.mode, config.accounts.mode != "site", "user or anyone"),
        (
            "starter.listen",
            config.starter.listen,
            is_loopback(f"{config.starter.listen}:1"),
            "a loopback address, to which ssh leads the starters",
        ),
        (
            "starter.shared",
            True,
            not tables.get("starter", {}).get("shared"),
            "false: the machines of the site see none of the agent's folders",
        ),
    ):
        if not is_right:
            _refuse(source, key=key, value=value, allowed=f"{allowed}, with transport.kind = 'ssh'")
    replace = msgspec.structs.replace
    starter = replace(config.starter, shared=False, python=config.starter.python or SITE_PYTHON)
    poll_s = config.lrm.poll_s if "poll_s" in tables.get("lrm", {}) else SSH_POLL_S
    return replace(config, starter=starter, lrm=replace(config.lrm, poll_s=poll_s))


def _check_line(config: Config, source: str, *, given: object) -> None:
    """Check the keys of the line that starters have to the agent."""
    starter = config.starter
    unused = DIALLED_KEYS if starter.line == "files" else ("mailbox",)
    for key in given if isinstance(given, dict) else ():
        if key in unused:
            message = f"{source}: starter.{key} means nothing with starter.line = {starter.line!r}"
            raise ConfigError(message)
    if starter.line == "tcp":
        return
    if config.accounts.mode == "site":
        allowed = "tcp with accounts.mode = 'site': no account may write files of another"
        _refuse(source, key="starter.line", value="files", allowed=allowed)
    if config.transport.kind == "local" and not starter.shared and not starter.mailbox:
        allowed = "a folder that this machine and the compute nodes share, as in '/home/me/koala'"
        _refuse(source, key="starter.mailbox", value="", allowed=allowed)


def _check(config: Config, source: str) -> None:
    """Check constraints that involve several keys."""
    largest = config.site.largest_claim
    if largest is not None and largest > config.site.processors:
        _refuse(
            source,
            key="site.largest_claim",
            value=largest,
            allowed=f"at most site.processors = {config.site.processors}",
        )
    for table, key, value in _numbers(config):
        if math.isnan(value) or (math.isinf(value) and key != "longest_hold_s"):
            _refuse(source, key=f"{table}.{key}", value=value, allowed="a finite number")
    _check_sizes(config, source)
    if config.agent.plain and not is_loopback(config.agent.daemon):
        _refuse(
            source,
            key="agent.daemon",
            value=config.agent.daemon,
            allowed="a loopback address, as 127.0.0.1:7740, with agent.plain = true",
        )
    if config.agent.plain and config.files.serve and not is_loopback(config.files.serve):
        _refuse(
            source,
            key="files.serve",
            value=config.files.serve,
            allowed="a loopback address, as 127.0.0.1:0, with agent.plain = true",
        )
    for key, endpoint in (
        ("agent.daemon", config.agent.daemon),
        ("files.serve", config.files.serve),
    ):
        if endpoint is not None and int(endpoint.rpartition(":")[2]) > 65535:
            _refuse(source, key=key, value=endpoint, allowed="a port from 0 to 65535")


def _check_accounts(config: Config, source: str, *, given: object) -> None:
    """Check the accounts table against its mode, and that the owner's folders are absolute."""
    accounts, owner = config.accounts, config.site.owner
    for key in given if isinstance(given, dict) else ():
        if key != "mode" and key not in ACCOUNT_KEYS[accounts.mode]:
            allowed = ", ".join(ACCOUNT_KEYS[accounts.mode]) or "none"
            message = (
                f"{source}: accounts.{key} means nothing with mode = {accounts.mode!r}: allowed are"
                f" {allowed}"
            )
            raise ConfigError(message)
    if accounts.mode == "site":
        _check_site_mode(accounts, owner, source)
        if config.lrm.kind == "emulated" and accounts.become:
            # The agent cannot end processes that sudo has started as root.
            allowed = "none with lrm.kind = 'emulated': its agent must be root"
            _refuse(source, key="accounts.become", value=list(accounts.become), allowed=allowed)
    if accounts.user and owner not in ("", accounts.user):
        allowed = f"the user whose claims are taken, accounts.user = {accounts.user!r}"
        _refuse(source, key="site.owner", value=owner, allowed=allowed)
    for folder in config.site.executables:
        if not Path(folder).is_absolute():
            _refuse(source, key="site.executables", value=folder, allowed="absolute paths")
    if config.site.variables and not config.site.executables:
        allowed = "none without site.executables, where jobs set any"
        _refuse(source, key="site.variables", value=list(config.site.variables), allowed=allowed)


def _check_site_mode(accounts: AccountsTable, owner: str, source: str) -> None:
    if not accounts.map:
        allowed = "at least one grid user with its account, as in alice = 'al1ce'"
        _refuse(source, key="accounts.map", value=accounts.map, allowed=allowed)
    if owner and owner not in accounts.map:
        _refuse(source, key="site.owner", value=owner, allowed="a user of accounts.map, or none")
    if accounts.become and not any("{account}" in word for word in accounts.become):
        allowed = "words of which one has {account} in it"
        _refuse(source, key="accounts.become", value=list(accounts.become), allowed=allowed)


def _apart(config: Config, source: str, *, given: object) -> Config:
    """Switch `starter.shared` off: accounts do not see the agent's folders, on any machine."""
    if isinstance(given, dict) and given.get("shared"):
        allowed = "false with accounts.mode = 'site': no account sees the agent's folders"
        _refuse(source, key="starter.shared", value=True, allowed=allowed)
    replace = msgspec.structs.replace
    return replace(config, starter=replace(config.starter, shared=False))


def _check_manager(config: Config, source: str, *, given: object) -> None:
    """Reject keys that this kind of local manager would ignore."""
    kind = config.lrm.kind
    for key in given if isinstance(given, dict) else ():
        if key != "kind" and key not in LRM_KEYS[kind]:
            allowed = ", ".join(LRM_KEYS[kind])
            message = (
                f"{source}: lrm.{key} means nothing with kind = {kind!r}: allowed are {allowed}"
            )
            raise ConfigError(message)
    if kind in GPU_LISTERS and config.site.gpus:
        allowed = f"none: {GPU_LISTERS[kind]} lists GPUs"
        _refuse(source, key="site.gpus", value=config.site.gpus, allowed=allowed)
    if kind == "emulated":
        from koala_agent.lrm.model import local_scheduler  # noqa: PLC0415 - not for batch systems

        try:
            local_scheduler(config.lrm.discipline)
        except ConfigError as error:
            raise ConfigError(f"{source}: lrm.discipline: {error}") from error
    if kind == "gridengine" and not config.lrm.parallel_environment:
        _refuse(
            source,
            key="lrm.parallel_environment",
            value="",
            allowed="the name of a parallel environment (qconf -spl lists them)",
        )
    if kind != "emulated" and config.load.arrivals_per_hour > 0:
        message = f"{source}: load.arrivals_per_hour: only an emulated site has synthetic users"
        raise ConfigError(message)


def _check_sizes(config: Config, source: str) -> None:
    """Check the sizes of local jobs, as far as they are given."""
    load, processors = config.load, config.site.processors
    if load.size_max is not None and load.size_max > processors:
        allowed = f"at most site.processors = {processors}"
        _refuse(source, key="load.size_max", value=load.size_max, allowed=allowed)
    size_max = largest_local_job(config)
    if load.size_min > size_max:
        allowed = f"at most load.size_max = {size_max}"
        _refuse(source, key="load.size_min", value=load.size_min, allowed=allowed)


def largest_local_job(config: Config) -> int:
    """Return `load.size_max` or its default."""
    given = config.load.size_max
    return min(8, config.site.processors) if given is None else given


def _numbers(config: Config) -> Iterator[tuple[str, str, float]]:
    """Yield all fractional numbers with their table and key."""
    for table in config.__struct_fields__:
        struct = getattr(config, table)
        for key in () if struct is None else struct.__struct_fields__:
            value = getattr(struct, key)
            if isinstance(value, float):
                yield table, key, value


def _refuse(source: str, *, key: str, value: object, allowed: str) -> NoReturn:
    message = f"{source}: {key} = {value!r}: allowed is {allowed}"
    raise ConfigError(message)


def _with_paths(config: Config, source: str, folder: Path) -> Config:
    """Make the configured folders absolute, so that the working directory does not matter."""
    state = folder / written_path(config.agent.state_dir, key=f"{source}: agent.state_dir")
    store = state / written_path(config.files.store, key=f"{source}: files.store")
    replace = msgspec.structs.replace
    metrics, endpoint = config.metrics, metrics_endpoint(config, source, folder=folder)
    if metrics is not None and endpoint is not None:
        paths = ("certificate", "key", "token_file")
        metrics = replace(metrics, **{name: getattr(endpoint, name) for name in paths})
    return replace(
        config,
        agent=replace(config.agent, state_dir=str(state)),
        files=replace(config.files, store=str(store)),
        metrics=metrics,
    )


def metrics_endpoint(
    config: Config, source: str = "", *, folder: Path = Path("/")
) -> MetricsSettings | None:
    """Return where metrics are served; None without their table. Raises ConfigError."""
    table = config.metrics
    if table is None:
        return None
    return metrics_settings(
        table,
        key="metrics.listen",
        listen=table.listen,
        source=source,
        folder=folder,
        url_file=Path(config.agent.state_dir) / "metrics.url",
    )


# Errors ------------------------------------------------------------------------------------------

TABLES: dict[str, type[msgspec.Struct]] = {
    "agent": AgentTable,
    "site": SiteTable,
    "accounts": AccountsTable,
    "lrm": LRMTable,
    "load": LoadTable,
    "files": FilesTable,
    "starter": StarterTable,
    "metrics": MetricsTable,
    "transport": TransportTable,
}

_PLACED = re.compile(r"^(?P<what>.*?)(?: - at `(?:key in )?(?P<path>\$[^`]*)`)?$", re.DOTALL)
_FIELD = re.compile(r"field `(?P<name>[^`]*)`")


def _explain(error: str, tree: dict[str, object]) -> str:
    """Rewrite an error of msgspec (expectation and place) with the value and the known keys."""
    found = _PLACED.match(error)
    assert found is not None, error
    what, place = found["what"], (found["path"] or "$").removeprefix("$").removeprefix(".")
    named = _FIELD.search(what)
    if named is not None and "unknown field" in what:
        return _unknown(place, named["name"])
    if named is not None:
        missing = f"{place}.{named['name']}" if place else named["name"]
        return f"{missing} is missing"
    value: object = tree
    place = place.removesuffix("[...]")
    for key in place.split(".") if place else ():
        value = value.get(key) if isinstance(value, dict) else None
    allowed = what.removeprefix("Expected ").replace("`", "")
    if what.startswith("Invalid enum value"):
        allowed = "one of " + ", ".join(_choices(place))
    return f"{place or 'the file'} = {value!r}: allowed is {allowed}"


def _choices(place: str) -> tuple[str, ...]:
    """Return the words that a key with a fixed choice accepts."""
    table, _, key = place.partition(".")
    return get_args(get_type_hints(TABLES[table])[key])


def _unknown(place: str, name: str) -> str:
    known = TABLES.get(place, Config).__struct_fields__
    near = difflib.get_close_matches(name, known, n=1)
    hint = f"; did you mean {near[0]}?" if near else ""
    key = f"{place}.{name}" if place else name
    return f"{key} is not known: allowed are {', '.join(known)}{hint}"
