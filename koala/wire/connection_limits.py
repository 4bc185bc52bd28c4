"""What a server bears of whoever dials it and does not say who it is.

A port of gRPC takes any number of connections, waits two minutes for each handshake, and keeps for
ever a connection that asks nothing: a stranger who opens many takes all descriptors of the process,
and nobody else gets in. So each port has a part of the descriptors of its own, and who says nothing
is let go.
"""

from __future__ import annotations

import resource

HANDSHAKE_S = 10
"""How long a connection may take until it has shown what it must, in seconds."""

IDLE_S = 300
"""How long it may then ask nothing, in seconds; a client that asks again dials anew by itself."""

_DESCRIPTORS_MAX = 65_536


def raise_limit() -> None:
    """As many descriptors as this process may have by itself. Not for one that starts programs of
    others: they would inherit it, and those that use select(2) fail above 1,024."""
    _, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    wanted = _DESCRIPTORS_MAX if hard == resource.RLIM_INFINITY else min(hard, _DESCRIPTORS_MAX)
    if wanted > resource.getrlimit(resource.RLIMIT_NOFILE)[0]:
        resource.setrlimit(resource.RLIMIT_NOFILE, (wanted, hard))


def connections_max(ports: int) -> int:
    """Connections at each of so many ports, so that as much as one port has stays for the rest."""
    return resource.getrlimit(resource.RLIMIT_NOFILE)[0] // (ports + 1)


def options(ports: int) -> tuple[tuple[str, int], ...]:
    """Options of a server with so many ports. One more connection is closed at once, as is one
    whose handshake takes longer than `HANDSHAKE_S`."""
    return (
        ("grpc.max_allowed_incoming_connections", connections_max(ports)),  # of each port
        ("grpc.server_handshake_timeout_ms", HANDSHAKE_S * 1000),
        ("grpc.max_connection_idle_ms", IDLE_S * 1000),
    )
