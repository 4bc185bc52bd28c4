"""Channels to the daemon: plain text, or TLS by the site's identity.

Who has a certificate dials the daemon's other port; which one that is, is asked on the one that the
configuration names, each time: a daemon that restarts may have another.
"""

from __future__ import annotations

import grpc

from koala.errors import UnreachableError
from koala.identity.tls import DAEMON_HOST, Identity, IdentityFile, Options, secure_channel
from koala.wire.connection_diagnosis import why_not
from koala.wire.v1.identity_pb2 import WhereRequest
from koala.wire.v1.identity_pb2_grpc import EnrolmentStub

ASK_S = 5.0


async def dial(target: str, identity: IdentityFile | None, *, options: Options) -> grpc.aio.Channel:
    """A channel, not connected yet. Raises UnreachableError, which says why, and ConfigError and
    OSError when the identity cannot be used."""
    if identity is None:
        return grpc.aio.insecure_channel(target, options=options)
    own = identity.read()
    address, _ = await _certified_address(target, own, options=options)
    return secure_channel(
        address, DAEMON_HOST, authority=own.authority, identity=own, options=options
    )


async def why_refused(target: str, identity: IdentityFile) -> str:
    """What the daemon has against our certificate; empty when it is not that."""
    own = identity.read()
    address, now = await _certified_address(target, own, options=())
    finding = await why_not(address, DAEMON_HOST, authority=own.authority, identity=own, now=now)
    return finding.text if finding.is_refusal else ""


async def _certified_address(target: str, own: Identity, *, options: Options) -> tuple[str, float]:
    """Where callers with a certificate dial, and the daemon's clock. Raises UnreachableError."""
    asking = secure_channel(target, DAEMON_HOST, authority=own.authority, options=options)
    try:
        async with asking:
            where = await EnrolmentStub(asking).Where(WhereRequest(), timeout=ASK_S)
    except grpc.aio.AioRpcError as error:
        finding = await why_not(target, DAEMON_HOST, authority=own.authority)
        raise UnreachableError(finding.text or error.details()) from error
    return f"{target.rpartition(':')[0]}:{where.port}", where.now
