"""Network namespaces for tests: sites that reach the daemon's machine, and not one another. Needs
root."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass

HUB = "198.18.{net}.1"
"""Address of the machine between them (RFC 2544), one for each process of tests."""
INSIDE = "198.18.{net}.{host}"


@dataclass(frozen=True, slots=True)
class Namespace:
    """A namespace: the prefix of commands that run in it, and its own address."""

    prefix: tuple[str, ...]
    address: str


@contextmanager
def lonely_sites(names: Sequence[str]) -> Iterator[tuple[str, dict[str, Namespace]]]:
    """Make a namespace for each name; yield the address at which all of them reach this machine,
    and the namespaces. None has a route to another."""
    net = os.getpid() % 254 + 1
    hub = HUB.format(net=net)
    with ExitStack() as stack:
        _ip("addr", "add", f"{hub}/32", "dev", "lo")
        stack.callback(_ip, "addr", "delete", f"{hub}/32", "dev", "lo")
        found = {}
        for number, name in enumerate(names):
            space, device = f"koala{net}-{name}", f"k{net}v{number}"
            address = INSIDE.format(net=net, host=10 + number)
            _ip("netns", "add", space)
            stack.callback(_ip, "netns", "delete", space)
            _ip("link", "add", device, "type", "veth", "peer", "name", "eth0", "netns", space)
            _ip("link", "set", device, "up")
            _ip("route", "add", f"{address}/32", "dev", device, "src", hub)
            _ip("-n", space, "link", "set", "lo", "up")
            _ip("-n", space, "link", "set", "eth0", "up")
            _ip("-n", space, "addr", "add", f"{address}/32", "dev", "eth0")
            _ip("-n", space, "route", "add", f"{hub}/32", "dev", "eth0")
            found[name] = Namespace(prefix=("ip", "netns", "exec", space), address=address)
        yield hub, found


def _ip(*words: str) -> None:
    subprocess.run(["ip", *words], check=True)
