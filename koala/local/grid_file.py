"""Read and lay out grid files: one TOML file describes a grid on this machine, daemon and agents.

    state_dir = "..."          optional: where journals, spools and logs are kept
    [daemon], [parameters], [links], [bus] ...      as in the daemon's configuration
    [sites.NAME.site], .lrm, .load, .files, .starter, .agent      as in the agent's configuration

- The grid fills in the derived values: state directories, the daemon's address, the sites' names.
- Each process gets an ordinary configuration file. The process's own parser checks it before
  anything is started.
- Agents get theirs once the daemon serves, since only then its address is certain (port 0).
- Errors are ConfigErrors that name the grid file, the key and the allowed values.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING

import tomli_w

from koala.common.runtime.paths import written_path, written_text
from koala.common.runtime.settings_file import parse_toml
from koala.errors import ConfigError

if TYPE_CHECKING:
    from koala.daemon.config import Config as DaemonConfig
    from koala.queue_model.local_users import LoadParameters
    from koala_agent.config_tables import Config as AgentConfig

Tree = dict[str, object]

DAEMON_FILE = "daemon.toml"
GIVEN_BY_GRID = {"agent": ("site", "daemon", "state_dir", "plain"), "daemon": ("state_dir",)}
ANY_PORT = "127.0.0.1:0"


@dataclass(frozen=True, slots=True, kw_only=True)
class GridFile:
    """Parsed grid file: the daemon's tables, and those of each site by name."""

    source: str
    daemon: Tree
    sites: dict[str, Tree]
    state_dir: Path | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class GridFolder:
    """State folder of a grid, with the configuration files of its processes."""

    grid: GridFile
    state: Path

    @property
    def daemon(self) -> Path:
        """Path of the daemon's configuration."""
        return self.state / DAEMON_FILE

    @property
    def endpoint(self) -> Path:
        """Path of the file to which the daemon writes its address once it serves."""
        return self.state / "daemon" / "endpoint"

    @property
    def sites(self) -> tuple[str, ...]:
        """Names of the sites."""
        return tuple(self.grid.sites)

    def agent(self, site: str) -> Path:
        """Path of the configuration of a site's agent."""
        return self.state / "sites" / f"{site}.toml"

    def log(self, name: str) -> Path:
        """Path of the log of the daemon (`daemon`) or of a site's agent."""
        return self.state / "logs" / f"{name}.log"

    @property
    def link(self) -> Path:
        """Path of the file with the present sign-in link of the web page."""
        return self.state / "web.link"

    @property
    def metrics_url(self) -> Path:
        """Path of the file with the address of the daemon's metrics, if it serves them."""
        return self.endpoint.with_name("metrics.url")

    @property
    def temporary(self) -> Path:
        """Folder of temporary files of the grid's processes, removed with the state folder."""
        return self.state / "tmp"

    def store(self, site: str) -> Path:
        """Default folder of a site's replicas."""
        return self.state / "sites" / site / "files"

    def write_agents(self, address: str) -> None:
        """Write every agent's configuration, for the daemon at this address."""
        for site in self.sites:
            path = self.agent(site)
            path.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
            path.write_text(_agent_text(self, site, address), encoding="utf-8")


def read_grid(path: Path) -> GridFile:
    """Read a grid file. Raises ConfigError."""
    text = written_text(path)
    return parse_grid(text, source=str(path), folder=path.resolve().parent)


def parse_grid(text: str, *, source: str, folder: Path) -> GridFile:
    """Parse a grid's text; a relative `state_dir` is relative to `folder`. Raises ConfigError."""
    tree = parse_toml(text, source=source)
    sites = _table(tree.pop("sites", {}), source, "sites")
    if not sites:
        raise ConfigError(f"{source}: sites is missing: at least one [sites.NAME.site] is needed")
    state = tree.pop("state_dir", None)
    if state is not None and not isinstance(state, str):
        raise ConfigError(f"{source}: state_dir = {state!r} (expected the path of a folder)")
    grid = GridFile(
        source=source,
        daemon={key: _table(value, source, key) for key, value in tree.items()},
        sites={
            name: {
                key: _table(value, source, f"sites.{name}.{key}")
                for key, value in _table(table, source, f"sites.{name}").items()
            }
            for name, table in sites.items()
        },
        state_dir=None
        if state is None
        else folder / written_path(state, key=f"{source}: state_dir"),
    )
    _refuse_given(grid)
    return grid


def with_metrics(grid: GridFile) -> GridFile:
    """Let daemon and relay serve metrics at free ports, unless the grid says where they do."""
    metrics = {"listen": ANY_PORT, "relay": ANY_PORT}
    return replace(grid, daemon={"metrics": metrics, **grid.daemon})


def lay_out(grid: GridFile, state: Path, *, address: str | None = None) -> GridFolder:
    """Write the daemon's configuration and check all of them; `address` overrides its own.

    Raises ConfigError, JournalError, and OSError when `state` cannot be written.
    """
    from koala.daemon.state.initialization import require_initialized

    folder = GridFolder(grid=grid, state=state.resolve())
    table = _table(grid.daemon.get("daemon", {}), grid.source, "daemon")
    listen = address or str(table.get("listen", default_address()))
    daemon = {**table, "listen": listen, "state_dir": str(folder.endpoint.parent)}
    text = tomli_w.dumps({**grid.daemon, "daemon": daemon})
    checked = _check_daemon(text, grid.source, folder.state)
    for site in folder.sites:
        _agent_text(folder, site, listen)
    for path in (folder.temporary, folder.log("daemon").parent):
        path.mkdir(parents=True, exist_ok=True, mode=0o700)
    folder.daemon.write_text(text, encoding="utf-8")
    require_initialized(checked.state_dir)  # before new files are written there
    if not checked.daemon.plain:
        _give_certificates(folder, checked)
    return folder


def _give_certificates(folder: GridFolder, daemon: DaemonConfig) -> None:
    from koala.daemon.auth.local_provisioning import provision

    sites = {site: folder.state / "sites" / site for site in folder.sites}
    provision(daemon.state_dir, sites, lifetime_s=daemon.certificate_s)


def configurations(grid: GridFile) -> tuple[DaemonConfig, dict[str, AgentConfig]]:
    """Build the configurations of a grid's processes without writing files: the daemon's, and the
    agents' by site. Raises ConfigError."""
    from koala.daemon.config import parse_config as parse_daemon
    from koala_agent.config import parse_config as parse_agent

    folder = GridFolder(grid=grid, state=Path.cwd())
    table = _table(grid.daemon.get("daemon", {}), grid.source, "daemon")
    tables = {**grid.daemon, "daemon": {**table, "state_dir": "daemon"}}
    daemon = parse_daemon(tomli_w.dumps(tables), source=grid.source, folder=folder.state)
    agents = {
        site: parse_agent(
            _agent_text(folder, site, default_address()), source=site, folder=folder.state
        )
        for site in folder.sites
    }
    return daemon, agents


@dataclass(frozen=True, slots=True, kw_only=True)
class LocalQueue:
    """A site's local queue as a simulation has it; for a real batch system EASY, without synthetic
    users. `owner` is the only user whose jobs see the site, empty for all."""

    processors: int
    grace_s: float
    owner: str
    discipline: str
    seed: int
    load: LoadParameters | None


def local_queues(agents: Mapping[str, AgentConfig]) -> dict[str, LocalQueue]:
    """Return the local queue of each site."""
    from koala_agent.config import local_load
    from koala_agent.lrm.emulated.system import EmulatedTable

    queues = {}
    for site, config in agents.items():
        easy = EmulatedTable(discipline="easy")
        table = config.lrm if isinstance(config.lrm, EmulatedTable) else easy
        queues[site] = LocalQueue(
            processors=config.site.processors,
            grace_s=config.site.grace_s,
            owner=config.site.owner,
            discipline=table.discipline,
            seed=table.seed,
            load=local_load(config),
        )
    return queues


def check_ports(grid: GridFile, *, with_listen: bool) -> None:
    """Check that the ports of the grid's processes are free, before anything is started or written.
    Raises ConfigError."""
    from koala.common.wire.listen_ports import check_free

    daemon, agents = configurations(grid)
    if with_listen:
        or_else = "; `koala up --any-port` does so"
        check_free(f"{grid.source}: daemon.listen", daemon.daemon.listen, or_else=or_else)
    check_free(f"{grid.source}: daemon.agents", daemon.agents)
    check_free(f"{grid.source}: relay.listen", daemon.relay_listen)
    for key, endpoint in (("listen", daemon.metrics), ("relay", daemon.relay_metrics)):
        if endpoint is not None:
            check_free(f"{grid.source}: metrics.{key}", endpoint.listen)
    for site, agent in agents.items():
        if agent.metrics is not None:
            check_free(f"{grid.source}: sites.{site}.metrics.listen", agent.metrics.listen)
        if agent.files.serve is not None:
            check_free(f"{grid.source}: sites.{site}.files.serve", agent.files.serve)
        place = f"{agent.starter.listen}:{agent.starter.port}"
        check_free(f"{grid.source}: sites.{site}.starter.port", place)


def default_address() -> str:
    """Default address of the daemon, for the daemon and for the command line."""
    from koala.daemon.config import DEFAULT_LISTEN

    return DEFAULT_LISTEN


def _agent_text(folder: GridFolder, site: str, address: str) -> str:
    """Build the configuration of a site's agent and check it with the agent's parser."""
    from koala_agent.config import parse_config
    from koala_agent.lrm.batch_system import DEFAULT

    source, tables = folder.grid.source, folder.grid.sites[site]
    agent = {
        **_table(tables.get("agent", {}), source, f"sites.{site}.agent"),
        "site": site,
        "daemon": address,
        "state_dir": str(folder.state / "sites" / site),
        "plain": _table(folder.grid.daemon.get("daemon", {}), source, "daemon").get("plain", False),
    }
    others = {key: table for key, table in tables.items() if key != "agent"}
    # One account runs the whole grid: every user of the daemon may use the account, and so its
    # batch systems, from any program.
    manager = _table(tables.get("lrm", {}), source, f"sites.{site}.lrm")
    if manager.get("kind", DEFAULT) != DEFAULT:
        others["lrm"] = {"native": ["*"], **manager}
    text = tomli_w.dumps({"agent": agent, "accounts": {"mode": "anyone"}, **others})
    parse_config(text, source=f"{source}: sites.{site}", folder=folder.state)
    return text


def _check_daemon(text: str, source: str, folder: Path) -> DaemonConfig:
    from koala.daemon.config import parse_config

    return parse_config(text, source=source, folder=folder)


def _refuse_given(grid: GridFile) -> None:
    """Refuse keys that the grid fills in itself: their values would be ignored."""
    tables = [("daemon", grid.daemon.get("daemon"))]
    tables += [(f"sites.{name}.agent", site.get("agent")) for name, site in grid.sites.items()]
    for place, table in tables:
        for key in GIVEN_BY_GRID[place.rpartition(".")[2]]:
            if isinstance(table, Mapping) and key in table:
                instead = "state_dir above all tables" if key == "state_dir" else "nothing"
                raise ConfigError(
                    f"{grid.source}: {place}.{key} follows from the grid and must not be given"
                    f" (expected {instead})"
                )


def _table(value: object, source: str, place: str) -> Tree:
    if not isinstance(value, Mapping):
        raise ConfigError(f"{source}: {place} = {value!r} (expected a table, as in [{place}])")
    return dict(value)
