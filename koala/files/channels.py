"""Settings of gRPC that all carriers of files share.

Windows are small, so that a slow reader holds back its source after some 100 kB and not after 4 MB:
rates hold at both ends, and a cut copy has sent little in vain. A peer that vanished without a word
is noticed after `_KEEPALIVE_MS` and two time-outs; `grpc.http2.ping_timeout_ms` is one of them, and
60 s when it is not set.
"""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import grpc
from grpc import aio

from koala.files.rate_limits import CHUNK_BYTES
from koala.identity.tls import DAEMON_HOST, IdentityFile, secure_channel, site_host

_KEEPALIVE_MS = 10_000
_TIMEOUT_MS = 5_000
_MESSAGE_BYTES_MAX = 2 * CHUNK_BYTES

_OPTIONS: tuple[tuple[str, int], ...] = (
    ("grpc.max_send_message_length", _MESSAGE_BYTES_MAX),
    ("grpc.max_receive_message_length", _MESSAGE_BYTES_MAX),
    ("grpc.http2.lookahead_bytes", CHUNK_BYTES),
    ("grpc.http2.bdp_probe", 0),
    ("grpc.keepalive_time_ms", _KEEPALIVE_MS),
    ("grpc.keepalive_timeout_ms", _TIMEOUT_MS),
    ("grpc.http2.ping_timeout_ms", _TIMEOUT_MS),
    ("grpc.http2.max_pings_without_data", 0),
)
CHANNEL_OPTIONS = (
    *_OPTIONS,
    ("grpc.initial_reconnect_backoff_ms", 100),
    ("grpc.min_reconnect_backoff_ms", 100),
    ("grpc.max_reconnect_backoff_ms", 1000),
    ("grpc.use_local_subchannel_pool", 1),
)
SERVER_OPTIONS = (
    *_OPTIONS,
    ("grpc.so_reuseport", 0),
    ("grpc.http2.min_ping_interval_without_data_ms", _KEEPALIVE_MS // 2),
    ("grpc.http2.min_recv_ping_interval_without_data_ms", _KEEPALIVE_MS // 2),
)


class RefusalError(Exception):
    """How a call of a peer ends, found where something is still held for it.

    It is answered when that is given back: the answer itself waits behind messages that a stalled
    peer does not take, perhaps for as long as the connection lasts.
    """

    def __init__(self, code: grpc.StatusCode, reason: str) -> None:
        self.code = code
        self.reason = reason
        super().__init__(reason)


class Channels:
    """One channel for each address; copies with the same peer share a connection.

    A channel is closed when its last user is gone, so that addresses which come and go leave
    nothing behind. With the site's identity channels are TLS, and the peer proves to be the site
    or the relay that is meant, wherever it answers.
    """

    def __init__(self, identity: IdentityFile | None = None) -> None:
        self._identity = identity
        self._open: dict[tuple[str, str], tuple[aio.Channel, int]] = {}

    @asynccontextmanager
    async def use(self, address: str, site: str = "") -> AsyncIterator[aio.Channel]:
        """The channel to host:port of this site, or of the relay, for as long as the block lasts.
        Raises ConfigError when our own identity cannot be used."""
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
