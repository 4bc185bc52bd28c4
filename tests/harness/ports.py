"""Ports for tests that must name one before somebody listens there, or while nobody does.

Where a test needs none by name, the kernel chooses: port 0.
"""

from __future__ import annotations

import secrets
import socket

PORTS = range(20_000, 32_000)
"""Below those that the kernel gives to sockets that dial, or that listen at any port: a port must
stay free while its daemon is down."""
HOSTS = ("127.0.0.1", "127.0.0.2")


def free_port() -> int:
    """One at which nobody listens now, and which no test gets a second time, in whatever process,
    as long as this one lives."""
    while True:
        port = secrets.choice(PORTS)
        if _is_free(port) and _is_first(port):
            return port


def _is_free(port: int) -> bool:
    for host in HOSTS:
        with socket.socket() as probe:
            try:
                probe.bind((host, port))
            except OSError:
                return False
    return True


def _is_first(port: int) -> bool:
    """A name that one process of this machine can have; its descriptor stays open until the end."""
    sign = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
    try:
        sign.bind(f"\0koala-test-port-{port}")
    except OSError:
        sign.close()
        return False
    sign.detach()
    return True
