"""Client channel: plain text, or TLS with a token; diagnosis of failures.

gRPC reports a failed handshake as "Socket closed". Failures are therefore diagnosed
(`koala.common.wire.connection_diagnosis`) before they are reported.
"""

from __future__ import annotations

import asyncio

import grpc

from koala.common.identity.credentials import (
    AUTHORITY_VARIABLE,
    FILE_VARIABLE,
    TOKEN_VARIABLE,
    Credentials,
    default_address,
    find_credentials,
    own_daemons,
)
from koala.common.identity.tls import DAEMON_HOST, Options, is_loopback, secure_channel
from koala.common.wire.grpc_shutdown import leave_out_grpc
from koala.common.wire.status import TOKEN_KEY, TOKEN_SCHEME, USER_KEY
from koala.errors import ConfigError, UnauthenticatedError, UnreachableError

CONNECT_S = 2.0
TRIES = 5  # while the diagnosis finds no error: the machine may be busy
FAILING_S = 0.3  # time limit for a channel that is already in TRANSIENT_FAILURE


def unreachable_text(address: str) -> str:
    """Return the error text for an unreachable daemon; lists this account's daemons on this
    machine."""
    others = [other for other in own_daemons() if other != address]
    here = (
        f"yours on this machine: {', '.join(others)}"
        if others
        else "you run none on this machine; start one with: koala up"
    )
    return f"no daemon answers at {address} (another one: `address`, or KOALA_ADDRESS; {here})"


class DaemonEndpoint:
    """Address and credentials of a daemon; `open` returns the shared channel."""

    def __init__(self, address: str, credentials: Credentials | None, *, options: Options) -> None:
        """Raise ConfigError for plain text to another machine."""
        self._address = address
        self._credentials = credentials
        self._options = options
        self._channel: grpc.aio.Channel | None = None
        self._connect_lock: asyncio.Lock | None = None
        if credentials is not None:
            self._check_plain(credentials)

    @property
    def source(self) -> str:
        """Place where the credentials were found; empty before the first call."""
        return "" if self._credentials is None else self._credentials.source

    def metadata(self, user: str) -> tuple[tuple[str, str], ...]:
        """Call metadata that authenticates the caller; a token is sent over TLS only."""
        credentials = self._credentials
        if credentials is None or credentials.is_plain:
            return ((USER_KEY, user),)
        return ((TOKEN_KEY, TOKEN_SCHEME + credentials.token),)

    def unlock(self) -> None:
        """Allow `open`, until `close`."""
        leave_out_grpc()
        self._connect_lock = asyncio.Lock()

    async def close(self) -> None:
        """Close the channel and forbid `open`."""
        self._connect_lock = None
        channel, self._channel = self._channel, None
        if channel is not None:
            await channel.close()

    async def open(self) -> grpc.aio.Channel:
        """Return the channel, ready for calls. Raises UnreachableError; UnauthenticatedError when
        either side rejects the other's credentials."""
        if self._connect_lock is None:
            message = "the client is closed, or not open yet: use it within `with`, or `async with`"
            raise UnreachableError(message)
        if self._channel is None:
            async with self._connect_lock:
                if self._channel is None:
                    self._channel = await self._connect()
        await self._wait_ready(self._channel)
        return self._channel

    # --- connecting -------------------------------------------------------------------------------

    async def _connect(self) -> grpc.aio.Channel:
        credentials = self._credentials or await self._find_late_credentials()
        self._credentials = credentials
        self._check_plain(credentials)
        if credentials.is_plain:
            return grpc.aio.insecure_channel(self._address, options=self._options)
        return secure_channel(
            self._address, DAEMON_HOST, authority=credentials.authority, options=self._options
        )

    def _check_plain(self, credentials: Credentials) -> None:
        if credentials.is_plain and not is_loopback(self._address):
            raise ConfigError(
                f"plain text to {self._address} (expected a loopback address, since anybody on"
                " the way could read and change it)"
            )

    async def _wait_ready(self, channel: grpc.aio.Channel) -> None:
        for _ in range(TRIES):
            if await self._try_ready(channel):
                return
            if (error := await self._diagnose()) is not None:
                raise error
        raise UnreachableError(unreachable_text(self._address))

    async def _try_ready(self, channel: grpc.aio.Channel) -> bool:
        """Wait a bounded time for the channel; True if it is ready."""
        state = channel.get_state(try_to_connect=True)
        was_failing = state is grpc.ChannelConnectivity.TRANSIENT_FAILURE
        while state is not grpc.ChannelConnectivity.READY:
            # gRPC keeps this state until a try succeeds; a channel newly in it has failed.
            if state is grpc.ChannelConnectivity.TRANSIENT_FAILURE and not was_failing:
                return False
            limit_s = FAILING_S if was_failing else CONNECT_S
            try:
                async with asyncio.timeout(limit_s):
                    await channel.wait_for_state_change(state)
            except TimeoutError:
                return False
            was_failing = False
            state = channel.get_state(try_to_connect=True)
        return True

    # --- diagnosis --------------------------------------------------------------------------------

    async def _diagnose(self) -> UnreachableError | UnauthenticatedError | None:
        """Find why the connection fails; None when nothing is wrong and it is only slow."""
        from koala.common.wire.connection_diagnosis import speaks_tls, why_not  # noqa: PLC0415 - rarely needed

        credentials = self._credentials
        assert credentials is not None
        if credentials.is_plain:
            if await speaks_tls(self._address):
                return UnauthenticatedError(
                    f"the daemon at {self._address} speaks TLS, and was dialled in plain text:"
                    f" {_search_order()}"
                )
            return UnreachableError(unreachable_text(self._address))
        finding = await why_not(self._address, DAEMON_HOST, authority=credentials.authority)
        if finding.is_refusal:
            return UnauthenticatedError(
                f"no connection with the daemon at {self._address}: {finding.text}"
                f" (credentials: {credentials.source})"
            )
        return UnreachableError(unreachable_text(self._address)) if finding.text else None

    async def _find_late_credentials(self) -> Credentials:
        """Find the credentials of a local daemon that started after the first search.

        A daemon writes them before it serves. So if one serves now, search again. Raises
        UnreachableError, UnauthenticatedError.
        """
        from koala.common.wire.connection_diagnosis import speaks_tls  # noqa: PLC0415 - rarely needed

        if (found := find_credentials(self._address)) is not None:
            return found
        is_serving = await speaks_tls(self._address)
        if (found := find_credentials(self._address)) is not None:
            return found
        if not is_serving:
            raise UnreachableError(unreachable_text(self._address))
        raise UnauthenticatedError(
            f"no credentials for {self._address}{self._neighbour()}: {_search_order()}"
        )

    def _neighbour(self) -> str:
        """Name a daemon at another port of the same host for which there are credentials."""
        host = self._address.rpartition(":")[0]
        known = [address for address in (default_address(), *own_daemons()) if address]
        near = next((address for address in known if address.rpartition(":")[0] == host), "")
        return f" (you have some for {near}; agents have a port of their own)" if near else ""


def _search_order() -> str:
    return (
        f"they are looked for in {FILE_VARIABLE}, {TOKEN_VARIABLE} with {AUTHORITY_VARIABLE},"
        " ~/.config/koala/credentials.toml, and on the daemon's machine where it left them for the"
        " account that runs it; `koala user add` makes them"
    )
