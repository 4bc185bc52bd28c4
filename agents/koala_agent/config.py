"""The agent's configuration: parse TOML into frozen structs and validate it once.

Every error is a `ConfigError` that names the file, the key, the value and what is allowed. The file
wins over any request of a daemon: `site.largest_claim` and `site.longest_hold_s` are the owner's
limits, and a claim beyond them is refused with that reason.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import msgspec

from koala.common.identity.tls import is_loopback
from koala.common.metrics.settings import MetricsSettings, metrics_settings
from koala.common.runtime.paths import written_path, written_text
from koala.common.runtime.settings_file import Tree, check_port, convert, parse_toml, refuse
from koala.errors import ConfigError
from koala_agent.config_tables import (
    ACCOUNT_KEYS,
    DIALLED_KEYS,
    TRANSPORT_KEYS,
    AccountsTable,
    Config,
)
from koala_agent.lrm.batch_system import DEFAULT, LRMTable, find_system, known_systems
from koala_agent.lrm.emulated.system import EmulatedTable

if TYPE_CHECKING:
    from koala.queue_model.local_users import LoadParameters

SITE_PYTHON = "python3"
"""Interpreter of the starters at a site behind ssh, where none is given."""


def read_config(path: Path) -> Config:
    """Read the configuration from a file. Raises ConfigError."""
    text = written_text(path)
    return parse_config(text, source=str(path), folder=path.resolve().parent)


def read_configs(paths: Sequence[Path]) -> tuple[Config, ...]:
    """Read the files of the sites that one process serves; several are all behind ssh. Raises
    ConfigError."""
    configs = tuple(map(read_config, paths))
    if len(configs) == 1:
        return configs
    first_at: dict[tuple[str, str], Path] = {}
    for path, config in zip(paths, configs, strict=True):
        source, agent = str(path), config.agent
        if config.transport.kind != "ssh":
            allowed = "ssh, for each site of a process that serves several"
            refuse(source, key="transport.kind", value=config.transport.kind, allowed=allowed)
        for key, value in (("agent.site", agent.site), ("agent.state_dir", agent.state_dir)):
            other = first_at.setdefault((key, value), path)
            if other is not path:
                refuse(source, key=key, value=value, allowed=f"another one than that of {other}")
    return configs


def parse_config(text: str, *, source: str, folder: Path) -> Config:
    """Parse a configuration; relative paths are relative to `folder`. Raises ConfigError."""
    tree = parse_toml(text, source=source)
    manager = _read_manager(tree.get("lrm", {}), source)
    rest = {key: table for key, table in tree.items() if key != "lrm"}
    config = convert(rest, Config, source=f"{source}: ")
    config = msgspec.structs.replace(config, lrm=manager)
    _check(config, source)
    _check_accounts(config, source, tree)
    if config.accounts.mode == "site":
        config = _apart(config, source, tree)
    _check_manager(config, source)
    if config.transport.kind == "ssh" or "transport" in tree:
        config = _by_transport(config, source, tree)
    _check_line(config, source, tree)
    return _with_paths(config, source, folder)


def _by_transport(config: Config, source: str, tree: Tree) -> Config:
    """Check the transport table, and set what is different for a site behind ssh: its machines see
    none of the agent's folders."""
    transport = config.transport
    _check_keys(source, tree, "transport", "kind", transport.kind, TRANSPORT_KEYS)
    if transport.kind == "local":
        return config
    if not transport.host:
        allowed = "a host of your ssh configuration, as in host = 'atlas'"
        refuse(source, key="transport.host", value="", allowed=allowed)
    for key, value, is_right, allowed in (
        (
            "lrm.kind",
            config.lrm.kind,
            not config.system.is_emulated,
            "one of " + ", ".join(one.kind for one in known_systems() if not one.is_emulated),
        ),
        ("accounts.mode", config.accounts.mode, config.accounts.mode != "site", "user or anyone"),
        (
            "starter.listen",
            config.starter.listen,
            is_loopback(f"{config.starter.listen}:1"),
            "a loopback address, to which ssh forwards the starters",
        ),
        (
            "starter.shared",
            True,
            not tree.get("starter", {}).get("shared"),
            "false: the machines of the site see none of the agent's folders",
        ),
    ):
        if not is_right:
            refuse(source, key=key, value=value, allowed=f"{allowed}, with transport.kind = 'ssh'")
    replace = msgspec.structs.replace
    starter = replace(config.starter, shared=False, python=config.starter.python or SITE_PYTHON)
    return replace(config, starter=starter)


def _check_line(config: Config, source: str, tree: Tree) -> None:
    """Check the keys of the line that starters have to the agent."""
    starter = config.starter
    unused = DIALLED_KEYS if starter.line == "files" else ("mailbox",)
    for key in tree.get("starter", {}):
        if key in unused:
            message = f"{source}: starter.{key} means nothing with starter.line = {starter.line!r}"
            raise ConfigError(message)
    if starter.line == "tcp":
        return
    if config.accounts.mode == "site":
        allowed = "tcp with accounts.mode = 'site': no account may write files of another"
        refuse(source, key="starter.line", value="files", allowed=allowed)
    if config.transport.kind == "local" and not starter.shared and not starter.mailbox:
        allowed = "a folder that this machine and the compute nodes share, as in '/home/me/koala'"
        refuse(source, key="starter.mailbox", value="", allowed=allowed)


def _check(config: Config, source: str) -> None:
    """Check constraints that involve several keys."""
    largest = config.site.largest_claim
    if largest is not None and largest > config.site.processors:
        refuse(
            source,
            key="site.largest_claim",
            value=largest,
            allowed=f"at most site.processors = {config.site.processors}",
        )
    for table, key, value in _numbers(config):
        if math.isnan(value) or (math.isinf(value) and key != "longest_hold_s"):
            refuse(source, key=f"{table}.{key}", value=value, allowed="a finite number")
    _check_sizes(config, source)
    if config.agent.plain and not is_loopback(config.agent.daemon):
        refuse(
            source,
            key="agent.daemon",
            value=config.agent.daemon,
            allowed="a loopback address, as 127.0.0.1:7740, with agent.plain = true",
        )
    if config.agent.plain and config.files.serve and not is_loopback(config.files.serve):
        refuse(
            source,
            key="files.serve",
            value=config.files.serve,
            allowed="a loopback address, as 127.0.0.1:0, with agent.plain = true",
        )
    for key, endpoint in (
        ("agent.daemon", config.agent.daemon),
        ("files.serve", config.files.serve),
    ):
        check_port(source, key, endpoint)


def _check_keys(
    source: str,
    tree: Tree,
    table: str,
    by: str,
    kind: str,
    keys: Mapping[str, tuple[str, ...]],
) -> None:
    """Reject the keys of a table that mean nothing with this kind, the value of its key `by`."""
    for key in tree.get(table, {}):
        if key != by and key not in keys[kind]:
            raise ConfigError(
                f"{source}: {table}.{key} means nothing with {by} = {kind!r} (expected"
                f" {', '.join(keys[kind]) or 'none'})"
            )


def _check_accounts(config: Config, source: str, tree: Tree) -> None:
    """Check the accounts table against its mode, and that the owner's folders are absolute."""
    accounts, owner = config.accounts, config.site.owner
    _check_keys(source, tree, "accounts", "mode", accounts.mode, ACCOUNT_KEYS)
    if accounts.mode == "site":
        _check_site_mode(accounts, owner, source)
        if config.system.is_emulated and accounts.become:
            # The agent cannot end processes that sudo has started as root.
            allowed = f"none with lrm.kind = {config.lrm.kind!r}: its agent must be root"
            refuse(source, key="accounts.become", value=list(accounts.become), allowed=allowed)
    if accounts.user and owner not in ("", accounts.user):
        allowed = f"the user whose claims are taken, accounts.user = {accounts.user!r}"
        refuse(source, key="site.owner", value=owner, allowed=allowed)
    for folder in config.site.executables:
        if not Path(folder).is_absolute():
            refuse(source, key="site.executables", value=folder, allowed="absolute paths")
    if config.site.variables and not config.site.executables:
        allowed = "none without site.executables, where jobs set any"
        refuse(source, key="site.variables", value=list(config.site.variables), allowed=allowed)


def _check_site_mode(accounts: AccountsTable, owner: str, source: str) -> None:
    if not accounts.map:
        allowed = "at least one grid user with its account, as in alice = 'al1ce'"
        refuse(source, key="accounts.map", value=accounts.map, allowed=allowed)
    if owner and owner not in accounts.map:
        refuse(source, key="site.owner", value=owner, allowed="a user of accounts.map, or none")
    if accounts.become and not any("{account}" in word for word in accounts.become):
        allowed = "words of which one has {account} in it"
        refuse(source, key="accounts.become", value=list(accounts.become), allowed=allowed)


def _apart(config: Config, source: str, tree: Tree) -> Config:
    """Switch `starter.shared` off: accounts do not see the agent's folders, on any machine."""
    if tree.get("starter", {}).get("shared"):
        allowed = "false with accounts.mode = 'site': no account sees the agent's folders"
        refuse(source, key="starter.shared", value=True, allowed=allowed)
    replace = msgspec.structs.replace
    return replace(config, starter=replace(config.starter, shared=False))


def _read_manager(table: object, source: str) -> LRMTable:
    """Read the table of the local manager as its kind's record says. Raises ConfigError."""
    if not isinstance(table, Mapping):
        refuse(source, key="lrm", value=table, allowed="a table, as in [lrm]")
    kind = table.get("kind", DEFAULT)
    if not isinstance(kind, str):
        refuse(source, key="lrm.kind", value=kind, allowed="a word")
    try:
        system = find_system(kind)
        names = system.setting_names()
        if left := [key for key in table if key not in ("kind", *names)]:
            others = {name for other in known_systems() for name in other.setting_names()}
            for key in (key for key in left if key in others):
                raise ConfigError(
                    f"lrm.{key} means nothing with kind = {kind!r} (expected one of"
                    f" {', '.join(names)})"
                )
    except ConfigError as error:
        raise ConfigError(f"{source}: {error}") from error
    file = msgspec.defstruct("File", [("lrm", system.settings)])
    manager: LRMTable = convert({"lrm": dict(table)}, file, source=f"{source}: ").lrm  # type: ignore[attr-defined]
    return manager


def _check_manager(config: Config, source: str) -> None:
    """Check what the local manager has to do with other tables."""
    system = config.system
    if system.lists_gpus and config.site.gpus:
        allowed = f"none: {system.title} lists GPUs"
        refuse(source, key="site.gpus", value=config.site.gpus, allowed=allowed)
    if isinstance(config.lrm, EmulatedTable):
        from koala.queue_model import local_scheduler  # noqa: PLC0415 - not for batch systems

        try:
            local_scheduler(config.lrm.discipline)
        except ConfigError as error:
            raise ConfigError(f"{source}: lrm.discipline: {error}") from error
    elif config.load.arrivals_per_hour > 0:
        message = f"{source}: load.arrivals_per_hour: only an emulated site has synthetic users"
        raise ConfigError(message)


def _check_sizes(config: Config, source: str) -> None:
    """Check the sizes of local jobs, as far as they are given."""
    load, processors = config.load, config.site.processors
    if load.size_max is not None and load.size_max > processors:
        allowed = f"at most site.processors = {processors}"
        refuse(source, key="load.size_max", value=load.size_max, allowed=allowed)
    size_max = largest_local_job(config)
    if load.size_min > size_max:
        allowed = f"at most load.size_max = {size_max}"
        refuse(source, key="load.size_min", value=load.size_min, allowed=allowed)


def largest_local_job(config: Config) -> int:
    """Return `load.size_max` or its default."""
    given = config.load.size_max
    return min(8, config.site.processors) if given is None else given


def local_load(config: Config, *, speed: float = 1.0) -> LoadParameters | None:
    """Return the parameters of the site's synthetic local users; None for none."""
    from koala.queue_model.local_users import LoadParameters  # noqa: PLC0415 - not for batch systems

    if config.load.arrivals_per_hour == 0:
        return None
    given = {**msgspec.structs.asdict(config.load), "size_max": largest_local_job(config)}
    return LoadParameters(**given, speed=speed)


def _numbers(config: Config) -> Iterator[tuple[str, str, float]]:
    """Yield all fractional numbers with their table and key."""
    for table in config.__struct_fields__:
        struct = getattr(config, table)
        for key in () if struct is None else struct.__struct_fields__:
            value = getattr(struct, key)
            if isinstance(value, float):
                yield table, key, value


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
