"""Back-off of gRPC channels between attempts to connect, and the time limit of each attempt.

In gRPC `min_reconnect_backoff_ms` is the least time limit of one attempt, handshakes included; a
refused attempt is repeated after the back-off all the same. A limit below what a busy peer or a
slow network needs would end every attempt before it succeeds, and each would cost both ends a
handshake.
"""

from __future__ import annotations

from koala.common.wire.connection_limits import HANDSHAKE_S

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
