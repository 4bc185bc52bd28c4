"""The site's certificate: enrolment by hand (`join`), and automatic renewal (`Renewal`).

The private key is made here and never leaves this machine. Key, certificate and the daemon's
authority are one file, `STATE/identity/site.pem`, replaced by atomic rename.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from contextlib import suppress
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, NoReturn

import grpc

from koala.errors import ConfigError, UnauthenticatedError, UnreachableError
from koala.identity.keys import expires_at, make_request, renew_at
from koala.identity.private_files import private_folder
from koala.identity.tls import (
    DAEMON_HOST,
    Identity,
    IdentityFile,
    InvalidIdentityError,
    JoinToken,
    secure_channel,
)
from koala.runtime import clock
from koala.runtime.structured_log import get_logger
from koala.wire.connection_diagnosis import why_not
from koala.wire.status import from_status
from koala.wire.v1.identity_pb2 import Issued, JoinRequest, RenewRequest
from koala.wire.v1.identity_pb2_grpc import EnrolmentStub
from koala_agent.link.endpoints import dial

FOLDER = "identity"
FILE = "site.pem"
CALL_S = 20.0
RETRY_MIN_S = 10.0  # the daemon's own limit on signing for one site
RETRY_MAX_S = 600.0
SETTLED_S = 600.0
CHECK_S = 6 * 3600.0

log = get_logger()


def identity_path(state_dir: Path) -> Path:
    """Return the path of the site's identity."""
    return state_dir / FOLDER / FILE


def find_identity(state_dir: Path, site: str) -> IdentityFile:
    """Read the identity of a site that has joined. Raises ConfigError."""
    path = identity_path(state_dir)
    found = IdentityFile(path)
    try:
        found.read()
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
    return found


async def join(token: JoinToken, site: str, state_dir: Path) -> Path:
    """Exchange a join token for a certificate; return the identity's path. Raises KoalaError."""
    if token.site != site:
        raise ConfigError(f"the join token is for site {token.site!r}, agent.site is {site!r}")
    folder = private_folder(state_dir / FOLDER)
    key, request = make_request(site)
    channel = secure_channel(token.address, DAEMON_HOST, authority=token.authority, options=())
    message = JoinRequest(site=site, secret=token.secret, request=request)
    try:
        async with channel:
            issued = await EnrolmentStub(channel).Join(message, timeout=CALL_S)
    except grpc.aio.AioRpcError as error:
        await _fail(token, error)
    path = folder / FILE
    _identity(key, issued).write(path)
    return path


class Renewal:
    """Renewal of a site's certificate in the last third of its life.

    After a renewal `redial` reconnects with the new certificate, and the daemon then revokes the
    old one. A failed try is repeated after a tenth of the certificate's remaining life, within
    RETRY_MIN_S and RETRY_MAX_S.

    `trouble` says why the last try failed, for the site's administrator; empty when no renewal is
    due. `changed` is called when it changes.
    """

    def __init__(
        self,
        identity: IdentityFile,
        daemon: str,
        *,
        redial: Callable[[str], None],
        changed: Callable[[], None] = lambda: None,
    ) -> None:
        self.trouble = ""
        self._identity = identity
        self._daemon = daemon
        self._redial = redial
        self._changed = changed

    async def run(self) -> None:
        """Renew the certificate whenever it is due, until cancelled."""
        while True:
            try:
                left_s = renew_at(self._identity.read().certificate) - clock.unix_now()
                if left_s <= 0:
                    await self._renew()
            except (UnreachableError, ConfigError, OSError, grpc.aio.AioRpcError) as error:
                await self._wait_after(_reason(error))
                continue
            self._set_trouble("")
            if left_s > 0:
                await asyncio.sleep(min(left_s, CHECK_S))  # the wall clock may be set
                continue
            log.info("certificate.renewed")
            self._redial("the certificate was renewed")
            # With a wall clock far ahead the new one is due again at once.
            await asyncio.sleep(SETTLED_S)

    async def _wait_after(self, reason: str) -> None:
        """Wait for the next try after a failure."""
        log.warning("certificate.not_renewed", reason=reason)
        ends, left_s = "", 0.0
        with suppress(ConfigError, OSError):  # an unreadable certificate has no known end
            ends_at = expires_at(self._identity.read().certificate)
            ends = f", which ends at {datetime.fromtimestamp(ends_at, UTC):%Y-%m-%d %H:%M:%S} UTC,"
            left_s = ends_at - clock.unix_now()
        self._set_trouble(f"its certificate{ends} cannot be renewed: {reason}")
        await asyncio.sleep(pause_s(left_s))

    def _set_trouble(self, trouble: str) -> None:
        if trouble != self.trouble:
            self.trouble = trouble
            self._changed()

    async def _renew(self) -> None:
        key, request = make_request("renewal")
        channel = await dial(self._daemon, self._identity, options=())
        async with channel:
            message = RenewRequest(request=request)
            issued = await EnrolmentStub(channel).Renew(message, timeout=CALL_S)
        _identity(key, issued).write(self._identity.path)


def pause_s(left_s: float) -> float:
    """Return the pause after a failed try, with `left_s` of the certificate's life left."""
    return RETRY_MAX_S if left_s <= 0 else min(RETRY_MAX_S, max(RETRY_MIN_S, left_s / 10))


def _identity(key: bytes, issued: Issued) -> Identity:
    """Parse the signed identity. Raises ConfigError for one that must not replace a valid one."""
    text = key + issued.certificate.encode() + issued.authority.encode()
    return Identity.parse(text, source="what the daemon has signed")


def _reason(error: Exception) -> str:
    if isinstance(error, grpc.aio.AioRpcError):
        return f"{error.code().name}: {error.details()}"
    return str(error)


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
