"""Channels to the daemon: plain text, or TLS with the site's identity.

Agents connect to the daemon's port for certificates. Its number is requested on the configured
port before each connection, because a restarted daemon may have another.
"""

from __future__ import annotations

import grpc

from koala.common.identity.tls import DAEMON_HOST, Identity, IdentityFile, Options, secure_channel
from koala.common.wire.connection_diagnosis import why_not
from koala.common.wire.v1.identity_pb2 import WhereRequest
from koala.common.wire.v1.identity_pb2_grpc import EnrolmentStub
from koala.errors import UnreachableError

ASK_S = 5.0


async def dial(target: str, identity: IdentityFile | None, *, options: Options) -> grpc.aio.Channel:
    """Make a channel, not connected yet. Raises UnreachableError, which says why, and ConfigError
    and OSError when the identity cannot be used."""
    if identity is None:
        return grpc.aio.insecure_channel(target, options=options)
    own = identity.read()
    address, _ = await certified_address(target, own, options=options)
    return secure_channel(
        address, DAEMON_HOST, authority=own.authority, identity=own, options=options
    )


async def why_refused(target: str, identity: IdentityFile) -> str:
    """Return why the daemon rejects our certificate; empty when that is not the problem."""
    own = identity.read()
    address, now = await certified_address(target, own, options=())
    finding = await why_not(address, DAEMON_HOST, authority=own.authority, identity=own, now=now)
    return finding.text if finding.is_refusal else ""


async def certified_address(target: str, own: Identity, *, options: Options) -> tuple[str, float]:
    """Return the address for clients with a certificate, and the daemon's clock. Raises
    UnreachableError."""
    asking = secure_channel(target, DAEMON_HOST, authority=own.authority, options=options)
    try:
        async with asking:
            where = await EnrolmentStub(asking).Where(WhereRequest(), timeout=ASK_S)
    except grpc.aio.AioRpcError as error:
        finding = await why_not(target, DAEMON_HOST, authority=own.authority)
        raise UnreachableError(finding.text or error.details()) from error
    return f"{target.rpartition(':')[0]}:{where.port}", where.now
