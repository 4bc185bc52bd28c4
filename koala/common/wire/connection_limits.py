"""Limits on connections that have not authenticated, and on attempts to connect.

A gRPC port accepts any number of connections, waits two minutes for each handshake, and keeps an
idle connection without a limit. An unauthenticated peer with many would use up all descriptors of
the process, and lock all others out. So each port has its own share of the descriptors, and idle
connections are closed.
"""

from __future__ import annotations

import resource

HANDSHAKE_S = 10
"""Time limit of a handshake, in seconds."""

ATTEMPT_S = HANDSHAKE_S
"""Time limit of one attempt to connect, in seconds: a server waits no longer."""

BACK_OFF: tuple[tuple[str, int], ...] = (
    ("grpc.initial_reconnect_backoff_ms", 100),
    ("grpc.max_reconnect_backoff_ms", 1_000),
    ("grpc.min_reconnect_backoff_ms", ATTEMPT_S * 1_000),
    # A channel that failed would else share its back-off with others to the same address.
    ("grpc.use_local_subchannel_pool", 1),
)
"""gRPC options; gRPC adds jitter to the back-off."""

IDLE_S = 300
"""Time limit of a connection without a call, in seconds; a client reconnects by itself."""

_DESCRIPTORS_MAX = 65_536


def raise_limit() -> None:
    """Raise the soft limit of descriptors as far as this process may.

    Not for a process that starts users' programs: they would inherit the limit, and programs that
    use select(2) fail above 1,024.
    """
    _, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    limit = _DESCRIPTORS_MAX if hard == resource.RLIM_INFINITY else min(hard, _DESCRIPTORS_MAX)
    if limit > resource.getrlimit(resource.RLIMIT_NOFILE)[0]:
        resource.setrlimit(resource.RLIMIT_NOFILE, (limit, hard))


def connections_max(ports: int) -> int:
    """Return the most connections of each port; as much as one port has stays for the rest."""
    return resource.getrlimit(resource.RLIMIT_NOFILE)[0] // (ports + 1)


def options(ports: int) -> tuple[tuple[str, int], ...]:
    """Return the gRPC options of a server with so many ports.

    One more connection is closed at once, as is one whose handshake takes longer than
    `HANDSHAKE_S`.
    """
    return (
        ("grpc.max_allowed_incoming_connections", connections_max(ports)),  # of each port
        ("grpc.server_handshake_timeout_ms", HANDSHAKE_S * 1000),
        ("grpc.max_connection_idle_ms", IDLE_S * 1000),
    )
