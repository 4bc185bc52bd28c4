"""gRPC channels and options shared by all file transfers.

A slow reader stalls its source after `WINDOW_BYTES`, not after 4 MB and more. So rates hold at both
ends, and a copy that is cut has wasted little. A peer that vanished silently
is detected after `_KEEPALIVE_MS` and two time-outs. One of them is `grpc.http2.ping_timeout_ms`,
which is 60 s by default.
"""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from grpc import aio

from koala.common.files.bandwidth_limits import CHUNK_BYTES
from koala.common.identity.tls import DAEMON_HOST, IdentityFile, secure_channel, site_host
from koala.common.wire.connection_limits import BACK_OFF

_KEEPALIVE_MS = 10_000
_TIMEOUT_MS = 5_000
WINDOW_BYTES = 2 * 1024 * 1024
"""Window of a stream: bytes that may be under way in a round trip, and kept for a slow reader."""
_MESSAGE_BYTES_MAX = WINDOW_BYTES
_FRAME_BYTES_MAX = CHUNK_BYTES // 2
"""Each frame costs as much as its bytes at the default of 16 kB. A larger one would delay the pings
behind it too long on a slow line."""

_OPTIONS: tuple[tuple[str, int], ...] = (
    ("grpc.max_send_message_length", _MESSAGE_BYTES_MAX),
    ("grpc.max_receive_message_length", _MESSAGE_BYTES_MAX),
    ("grpc.http2.lookahead_bytes", WINDOW_BYTES),
    ("grpc.http2.max_frame_size", _FRAME_BYTES_MAX),
    ("grpc.http2.bdp_probe", 0),
    ("grpc.keepalive_time_ms", _KEEPALIVE_MS),
    ("grpc.keepalive_timeout_ms", _TIMEOUT_MS),
    ("grpc.http2.ping_timeout_ms", _TIMEOUT_MS),
    ("grpc.http2.max_pings_without_data", 0),
)
CHANNEL_OPTIONS = (
    *_OPTIONS,
    *BACK_OFF,
)
SERVER_OPTIONS = (
    *_OPTIONS,
    ("grpc.so_reuseport", 0),
    ("grpc.http2.min_ping_interval_without_data_ms", _KEEPALIVE_MS // 2),
    ("grpc.http2.min_recv_ping_interval_without_data_ms", _KEEPALIVE_MS // 2),
)


class Channels:
    """Pool of channels, one for each address; copies with the same peer share a connection.

    A channel is closed when its last user is gone, so that short-lived addresses leave nothing
    behind. With the site's identity channels use TLS: the peer proves to be the intended site or
    the relay, wherever it answers.
    """

    def __init__(self, identity: IdentityFile | None = None) -> None:
        self._identity = identity
        self._open: dict[tuple[str, str], tuple[aio.Channel, int]] = {}

    @asynccontextmanager
    async def use(self, address: str, site: str = "") -> AsyncIterator[aio.Channel]:
        """Open or share the channel to host:port of a site, or of the relay, for the block.

        Raises ConfigError when our own identity cannot be used.
        """
        key = (address, site)
        channel, users = self._open.get(key) or (self._dial(address, site), 0)
        self._open[key] = (channel, users + 1)
        try:
            yield channel
        finally:
            channel, users = self._open.pop(key)
            if users > 1:
                self._open[key] = (channel, users - 1)
            else:
                await channel.close()

    def _dial(self, address: str, site: str) -> aio.Channel:
        if self._identity is None:
            return aio.insecure_channel(address, options=CHANNEL_OPTIONS)
        own = self._identity.read()
        return secure_channel(
            address,
            site_host(site) if site else DAEMON_HOST,
            authority=own.authority,
            identity=own,
            options=CHANNEL_OPTIONS,
        )
