"""A grid whose connections all go through the proxy, and whose journal has a small disk.

    grid = ProxiedGrid(folder, sites={"delft": 4, "leiden": 4})
    async with proxied(grid) as proxy:
        with started(grid): ...

Every listener has a port of its own on 127.0.0.1; the proxy has the same port on other loopback
addresses, which the configurations name. Its routes:

    SITE.link       the agent of SITE and the daemon
    SITE.starters   starters of SITE and their agent
    SITE.files      other agents and the file server of SITE
    relay           agents and the relay
    client          the clients of `far_address` and the daemon
"""

from __future__ import annotations

import asyncio
import os
from collections.abc import AsyncIterator, Iterator, Mapping
from contextlib import asynccontextmanager, contextmanager, suppress
from pathlib import Path
from typing import Any

from tests.harness.ports import free_port
from tests.live.grid import Grid
from tests.live.proxy import Proxy

HERE = "127.0.0.1"
RELAY_HOST = "127.0.4.1"
CLIENT_HOST = "127.0.5.1"
LINK, STARTERS, FILES = "link", "starters", "files"
DISK_MB = 192
LOW_MB = 8
BALLAST_MB = 4
SNAPSHOT_EVENTS = 1000
"""So that many starts begin at a saved state, and saving is disturbed, too."""
_MEGABYTE = b"\0" * 1_000_000


class ProxiedGrid(Grid):
    """See the module. Its processes find each other only while `proxied` lasts."""

    def __init__(
        self,
        folder: Path,
        *,
        sites: Mapping[str, int],
        parameters: Mapping[str, Any],
        silence_s: float,
        keep_s: float = 2.0,
    ) -> None:
        self._keep_s = keep_s
        self._names = tuple(sites)
        self._ports = {
            name: free_port()
            for name in ("agents", "relay", *sites, *(f"{site}.files" for site in sites))
        }
        # Where something always fails, what does not come soon is asked for elsewhere.
        super().__init__(
            folder, sites=sites, parameters=parameters, grace_s=2.0, silence_s=silence_s
        )

    def daemon_toml(self) -> str:
        """The daemon dials nobody: all is said to those who dial it."""
        ports = (
            f'[daemon]\nagents = "{HERE}:{self._ports["agents"]}"\n'
            f"low_disk_mb = {LOW_MB}\nballast_mb = {BALLAST_MB}\n"
        )
        relay = f'[relay]\nlisten = "{HERE}:{self._ports["relay"]}"\naddress = "{RELAY_HOST}"\n'
        journal = f"[journal]\nsnapshot_events = {SNAPSHOT_EVENTS}\n"
        return super().daemon_toml().replace("[daemon]\n", ports) + relay + journal

    def agent_toml(self, name: str, processors: int) -> str:
        """Each site has addresses of its own for what it dials and for what is dialled."""
        text = super().agent_toml(name, processors)
        text = text.replace(self.address, f"{self._host(LINK, name)}:{self._daemon_port}")
        text = text.replace("[agent]\n", f"[agent]\nkeep_s = {self._keep_s}\n")
        text = text.replace("silence_s = 6.0", f"silence_s = {self._silence_s}")
        text = text.replace(
            'serve = "127.0.0.1:0"\n',
            f'serve = "{HERE}:{self._ports[f"{name}.files"]}"\n'
            f'address = "{self._host(FILES, name)}"\n',
        )
        starters = f'["{self._host(STARTERS, name)}"]'
        return text + f"[starter]\nport = {self._ports[name]}\naddresses = {starters}\n"

    @property
    def far_address(self) -> str:
        """Address of the daemon for clients whose connections may be spoilt."""
        return f"{CLIENT_HOST}:{self._daemon_port}"

    @property
    def _daemon_port(self) -> int:
        return int(self.address.rpartition(":")[2])

    def _host(self, end: str, site: str) -> str:
        net = {LINK: 1, STARTERS: 2, FILES: 3}[end]
        return f"127.0.{net}.{1 + self._names.index(site)}"

    async def listen(self, proxy: Proxy) -> None:
        """Make the proxy take all that is dialled."""

        async def listen(route: str, host: str, port: int) -> None:
            await proxy.listen(route, (host, port), to=(HERE, port))

        for site in self.sites:
            for port in (self._daemon_port, self._ports["agents"]):
                await listen(f"{site}.{LINK}", self._host(LINK, site), port)
            await listen(f"{site}.{STARTERS}", self._host(STARTERS, site), self._ports[site])
            files_port = self._ports[f"{site}.files"]
            await listen(f"{site}.{FILES}", self._host(FILES, site), files_port)
        await listen("relay", RELAY_HOST, self._ports["relay"])
        await listen("client", CLIENT_HOST, self._daemon_port)


@asynccontextmanager
async def proxied(grid: ProxiedGrid) -> AsyncIterator[Proxy]:
    """The proxy of a grid, as long as the block lasts."""
    async with asyncio.TaskGroup() as group:
        proxy = Proxy(group)
        await grid.listen(proxy)
        try:
            yield proxy
        finally:
            proxy.close()


@contextmanager
def filled(folder: Path, *, leave_bytes: int) -> Iterator[None]:
    """As long as the block lasts the disk of a folder has so many bytes left, or none."""
    filler = folder / "filler"
    # A daemon that starts meanwhile looks at the modes of its files.
    taken = os.open(filler, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600)
    try:
        with os.fdopen(taken, "wb", buffering=0) as file:
            with suppress(OSError):  # whoever else writes meanwhile, at its end there is no room
                while file.write(_MEGABYTE):
                    pass
            file.truncate(max(0, file.tell() - leave_bytes))
        yield
    finally:
        filler.unlink()
