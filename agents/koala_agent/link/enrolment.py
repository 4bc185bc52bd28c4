"""Enrolment of a site by hand: exchange a join token for a certificate.

The private key is made here and never leaves this machine. Key, certificate and the daemon's
authority are one file, `STATE/identity/site.pem`, replaced by atomic rename.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any, NoReturn

import grpc

from koala.common.identity.keys import make_request
from koala.common.identity.private_files import private_folder
from koala.common.identity.tls import (
    DAEMON_HOST,
    Identity,
    IdentityFile,
    InvalidIdentityError,
    JoinToken,
    identity_path,
    secure_channel,
)
from koala.common.wire.connection_diagnosis import why_not
from koala.common.wire.status import from_status
from koala.common.wire.v1.identity_pb2 import Issued, JoinRequest
from koala.common.wire.v1.identity_pb2_grpc import EnrolmentStub
from koala.errors import ConfigError, UnauthenticatedError, UnreachableError

CALL_S = 20.0


def find_identity(state_dir: Path, site: str) -> IdentityFile:
    """Read the identity of a site that has joined. Raises ConfigError."""
    path = identity_path(state_dir)
    identity_file = IdentityFile(path)
    try:
        identity_file.read()
    except FileNotFoundError:
        raise ConfigError(
            f"site {site} has no certificate yet ({path} is missing): an operator's"
            f" `koala site add {site}` prints the command that gets one; a daemon that speaks plain"
            " text needs `plain = true` in [agent]"
        ) from None
    except InvalidIdentityError as error:
        raise ConfigError(
            f"{error}. The site must join again: an operator's `koala site add {site}` prints the"
            " command for it"
        ) from error
    return identity_file


async def join(token: JoinToken, site: str, state_dir: Path) -> Path:
    """Exchange a join token for a certificate; return the identity's path. Raises KoalaError."""
    if token.site != site:
        raise ConfigError(f"the join token is for site {token.site!r}, agent.site is {site!r}")
    path = identity_path(state_dir)
    private_folder(path.parent)
    key, request = make_request(site)
    channel = secure_channel(token.address, DAEMON_HOST, authority=token.authority, options=())
    message = JoinRequest(site=site, secret=token.secret, request=request)
    try:
        async with channel:
            issued = await EnrolmentStub(channel).Join(message, timeout=CALL_S)
    except grpc.aio.AioRpcError as error:
        await _fail(token, error)
    signed_identity(key, issued).write(path)
    return path


def signed_identity(key: bytes, issued: Issued) -> Identity:
    """Parse the signed identity. Raises ConfigError for one that must not replace a valid one."""
    text = key + issued.certificate.encode() + issued.authority.encode()
    return Identity.parse(text, source="what the daemon has signed")


async def _fail(token: JoinToken, error: grpc.aio.AioRpcError) -> NoReturn:
    """Raise the error that a failed call means."""
    if error.code() is grpc.StatusCode.UNAVAILABLE:
        finding = await why_not(token.address, DAEMON_HOST, authority=token.authority)
        if finding.is_refusal:
            raise UnauthenticatedError(f"the daemon at {token.address}: {finding.text}") from error
        detail = finding.text or error.details()
        raise UnreachableError(f"the daemon at {token.address} is not reached: {detail}") from error
    trailing: list[Any] = [(str(key), value) for key, value in error.trailing_metadata() or ()]
    raise from_status(error.code(), error.details(), trailing) from error
