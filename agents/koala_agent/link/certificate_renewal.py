"""Renewal of the site's certificate before it ends."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from contextlib import suppress
from datetime import UTC, datetime

import grpc

from koala.common.identity.keys import expires_at, make_request, renew_at
from koala.common.identity.tls import IdentityFile
from koala.common.runtime import clock
from koala.common.runtime.structured_log import get_logger
from koala.common.wire.v1.identity_pb2 import RenewRequest
from koala.common.wire.v1.identity_pb2_grpc import EnrolmentStub
from koala.errors import ConfigError, UnreachableError
from koala_agent.link.endpoints import dial
from koala_agent.link.enrolment import CALL_S, signed_identity

RETRY_MIN_S = 10.0  # the daemon's own limit on signing for one site
RETRY_MAX_S = 600.0
SETTLED_S = 600.0
CHECK_S = 6 * 3600.0

log = get_logger()


class Renewal:
    """Renewal of a site's certificate in the last third of its lifetime.

    After a renewal `redial` reconnects with the new certificate, and the daemon then revokes the
    old one. A failed try is repeated after a tenth of the certificate's remaining time, within
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
        signed_identity(key, issued).write(self._identity.path)


def pause_s(left_s: float) -> float:
    """Return the pause after a failed try, with `left_s` of the certificate's lifetime left."""
    return RETRY_MAX_S if left_s <= 0 else min(RETRY_MAX_S, max(RETRY_MIN_S, left_s / 10))


def _reason(error: Exception) -> str:
    if isinstance(error, grpc.aio.AioRpcError):
        return f"{error.code().name}: {error.details()}"
    return str(error)
