"""Sites that this user has connected over ssh: `~/.config/koala/sites/SITE.json` and SITE.toml."""

from __future__ import annotations

import json
import os
from dataclasses import asdict, dataclass, replace
from pathlib import Path

from koala.errors import ConfigError, UnknownNameError
from koala_agent.transport.ssh_socket import SSHSettings

RECORD_VERSION = 1


@dataclass(frozen=True, slots=True, kw_only=True)
class SiteRecord:
    """A connected site. `tunnel` are ports of this machine that its agent reaches through the
    connection; none where the agent runs here. `control` is the socket of a connection that another
    site has opened; empty for one of its own."""

    site: str
    host: str
    state_dir: str
    options: tuple[str, ...] = ()
    tunnel: tuple[int, ...] = ()
    control: str = ""

    def settings(self, limit_s: float = 60.0) -> SSHSettings:
        """Return the settings of its connection."""
        return SSHSettings(
            site=self.site,
            host=self.host,
            state_dir=Path(self.state_dir),
            options=self.options,
            control=self.control,
            limit_s=limit_s,
        )


def tunnel_of(site: str) -> tuple[int, ...]:
    """Return the ports of an earlier run; none for a new site. Raises ConfigError."""
    try:
        return find(site).tunnel
    except UnknownNameError:
        return ()


def shared_control(site: str, host: str, options: tuple[str, ...]) -> str:
    """Return the socket of the connection of another site at this host, so that nobody logs in
    twice; empty when this site needs one of its own. Raises ConfigError."""
    others = []
    for path in sorted(sites_folder().glob("*.json")):
        record = find(path.stem)
        if (record.host, record.options) != (host, options) or record.tunnel:
            continue
        if record.site == site:
            return record.control  # as it was
        if not record.control:
            others.append(record.settings().control_path())
    return others[0] if others else ""


def agent_file(site: str) -> Path:
    """Return the path of the file of an agent that runs here."""
    return sites_folder() / f"{site}.toml"


def with_tunnel(record: SiteRecord, ports: tuple[int, ...]) -> SiteRecord:
    """Return the record with these ports, each once."""
    return replace(record, tunnel=tuple(dict.fromkeys(ports)))


def sites_folder() -> Path:
    """Return the folder of connected sites."""
    base = os.environ.get("XDG_CONFIG_HOME")
    return (Path(base) if base else Path.home() / ".config") / "koala" / "sites"


def keep(record: SiteRecord) -> None:
    """Write a record."""
    folder = sites_folder()
    folder.mkdir(mode=0o700, parents=True, exist_ok=True)
    new = folder / f"{record.site}.json.new"
    new.write_text(json.dumps({"version": RECORD_VERSION, **asdict(record)}), encoding="utf-8")
    new.replace(folder / f"{record.site}.json")


def find(site: str) -> SiteRecord:
    """Read a record. Raises UnknownNameError and ConfigError."""
    path = sites_folder() / f"{site}.json"
    try:
        record = json.loads(path.read_text(encoding="utf-8"))
        if record.pop("version") != RECORD_VERSION:
            raise ConfigError(f"{path} is of another release (expected version {RECORD_VERSION})")
        words, ports = tuple(record.pop("options")), tuple(record.pop("tunnel"))
        return SiteRecord(**record, options=words, tunnel=ports)
    except FileNotFoundError:
        known = ", ".join(sorted(p.stem for p in sites_folder().glob("*.json"))) or "none"
        message = f"site {site!r} was not connected from here (expected one of {known})"
        raise UnknownNameError(message) from None
    except (OSError, ValueError, KeyError, TypeError, AttributeError) as error:
        raise ConfigError(f"{path} cannot be read: {error}: connect the site again") from error
