"""Ports for tests that must name one before somebody listens there, or while nobody does.

Where a test needs none by name, the kernel chooses: port 0.
"""

from __future__ import annotations

import secrets
import socket

PORTS = range(20_000, 32_000)
"""Below those that most kernels give to sockets that dial, or that listen at any port."""
HOSTS = ("127.0.0.1", "127.0.0.2")


def free_port() -> int:
    """Return a port where nobody listens, and which no test gets a second time while this process
    lives.

    It stays bound until then, by sockets that do not listen. A server that allows its address to be
    reused, as servers do, listens there in spite of them. The kernel gives the port to nobody else:
    a client that dials a server that is down would sooner or later dial from the server's own port,
    be connected to itself, and keep the server from coming back.
    """
    while not _hold(port := secrets.choice(PORTS)):
        pass
    return port


def _hold(port: int) -> bool:
    """Bind a port at all hosts until the process ends; False if somebody has it."""
    holders = [socket.socket() for _ in HOSTS]
    try:
        for host, holder in zip(HOSTS, holders, strict=True):
            holder.bind((host, port))
    except OSError:
        for holder in holders:
            holder.close()
        return False
    for holder in holders:
        # Not before: with it, two processes could hold the same port.
        holder.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        holder.detach()
    return True
