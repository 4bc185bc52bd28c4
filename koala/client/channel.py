"""A client's connection: plain text, TLS with a token or a certificate; and why there is none.

What gRPC says of a failed handshake is "Socket closed", so a failure is looked into (`diagnosis`)
before it is told. Callers with a certificate dial another port than those with a token; which one
is asked on the latter, anew after each failure, since a daemon that restarts may have another.
"""

from __future__ import annotations

import asyncio

import grpc

from koala.errors import ConfigError, UnauthenticatedError, UnreachableError
from koala.identity.credentials import (
    AUTHORITY_VARIABLE,
    FILE_VARIABLE,
    TOKEN_VARIABLE,
    Credentials,
    find_credentials,
    own_daemons,
)
from koala.identity.tls import DAEMON_HOST, Identity, Options, is_loopback, secure_channel
from koala.wire.status import TOKEN_KEY, TOKEN_SCHEME, USER_KEY

CONNECT_S = 2.0
TRIES = 5  # of a connection on which nothing is found to be wrong: a machine that is busy
FAILING_S = 0.3  # how long a connection that failed before is given to come back


def nobody_at(address: str) -> str:
    """That nobody answers, and where this account's own daemons on this machine said they do."""
    others = [other for other in own_daemons() if other != address]
    here = f"of yours here: {', '.join(others)}" if others else "none of yours serves here"
    return f"no daemon answers at {address} (option --address, or KOALA_ADDRESS; {here})"


class DaemonEndpoint:
    """One address and how to get in there; `open` as often as the connection is wanted."""

    def __init__(self, address: str, credentials: Credentials | None, *, options: Options) -> None:
        """Raises ConfigError for plain text that would leave this machine."""
        self._address = address
        self._credentials = credentials
        self._options = options
        self._channel: grpc.aio.Channel | None = None
        self._dialling: asyncio.Lock | None = None
        self._dialled = address
        self._shows: Identity | None = None
        self._daemons_now: float | None = None
        if credentials is not None:
            self._check_plain(credentials)

    def metadata(self, user: str) -> tuple[tuple[str, str], ...]:
        """What says who calls: a token only where it is encrypted."""
        found = self._credentials
        if found is None or found.is_plain:
            return ((USER_KEY, user),)
        return ((TOKEN_KEY, TOKEN_SCHEME + found.token),) if found.identity is None else ()

    def unlock(self) -> None:
        """From now on, until `close`, it can be opened."""
        self._dialling = asyncio.Lock()

    async def close(self) -> None:
        """Close the connection; it cannot be opened any more."""
        self._dialling = None
        await self._hang_up()

    async def open(self) -> grpc.aio.Channel:
        """The connection, ready. Raises UnreachableError; UnauthenticatedError when one side does
        not believe the other."""
        if self._dialling is None:
            message = "the client is not connected: use `async with Client() as ...`"
            raise UnreachableError(message)
        if self._channel is None:
            async with self._dialling:
                if self._channel is None:
                    self._channel = await self._dial()
        try:
            await self._until_ready(self._channel)
        except UnreachableError:
            if self._credentials is not None and self._credentials.identity is not None:
                await self._hang_up()
            raise
        return self._channel

    # --- dialling ---------------------------------------------------------------------------------

    async def _dial(self) -> grpc.aio.Channel:
        found = self._credentials or await self._found_late()
        self._credentials = found
        self._check_plain(found)
        if found.is_plain:
            return grpc.aio.insecure_channel(self._address, options=self._options)
        channel = self._secure(self._address, with_certificate=False)
        if found.identity is None:
            return channel
        # Not imported for a token: a command should be quick.
        from koala.wire.v1.identity_pb2 import WhereRequest  # noqa: PLC0415
        from koala.wire.v1.identity_pb2_grpc import EnrolmentStub  # noqa: PLC0415

        async with channel:
            await self._until_ready(channel)
            try:
                where = await EnrolmentStub(channel).Where(WhereRequest(), timeout=CONNECT_S)
            except grpc.aio.AioRpcError as error:
                raise UnreachableError(f"{nobody_at(self._address)}: {error.details()}") from error
        self._daemons_now = where.now
        host = self._address.rpartition(":")[0]
        return self._secure(f"{host}:{where.port}", with_certificate=True)

    def _check_plain(self, found: Credentials) -> None:
        if found.is_plain and not is_loopback(self._address):
            raise ConfigError(
                f"plain text to {self._address}: allowed are loopback addresses, since anybody on"
                " the way could read and change it"
            )

    def _secure(self, address: str, *, with_certificate: bool) -> grpc.aio.Channel:
        found = self._credentials
        assert found is not None
        self._dialled = address
        self._shows = found.identity if with_certificate else None
        return secure_channel(
            address,
            DAEMON_HOST,
            authority=found.authority,
            identity=self._shows,
            options=self._options,
        )

    async def _hang_up(self) -> None:
        channel, self._channel = self._channel, None
        if channel is not None:
            await channel.close()

    async def _until_ready(self, channel: grpc.aio.Channel) -> None:
        for _ in range(TRIES):
            if await self._comes_up(channel):
                return
            if (error := await self._why()) is not None:
                raise error
        raise UnreachableError(nobody_at(self._address))

    async def _comes_up(self, channel: grpc.aio.Channel) -> bool:
        """Whether the channel is ready within a bounded time."""
        state = channel.get_state(try_to_connect=True)
        was_failing = state is grpc.ChannelConnectivity.TRANSIENT_FAILURE
        while state is not grpc.ChannelConnectivity.READY:
            # gRPC stays in this state until a try succeeds; one that began now has just failed.
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

    # --- why not ----------------------------------------------------------------------------------

    async def _why(self) -> UnreachableError | UnauthenticatedError | None:
        """What keeps us out; None when nothing does, and it only takes its time."""
        from koala.wire.connection_diagnosis import speaks_tls, why_not  # noqa: PLC0415 - only when it is needed

        found = self._credentials
        assert found is not None
        if found.is_plain:
            if await speaks_tls(self._address):
                return UnauthenticatedError(
                    f"the daemon at {self._address} speaks TLS, and plain text was said to it:"
                    f" {_where_looked()}"
                )
            return UnreachableError(nobody_at(self._address))
        finding = await why_not(
            self._dialled,
            DAEMON_HOST,
            authority=found.authority,
            identity=self._shows,
            now=self._daemons_now,
        )
        if finding.is_refusal:
            return UnauthenticatedError(
                f"no connection with the daemon at {self._dialled}: {finding.text}"
                f" (credentials: {found.source})"
            )
        return UnreachableError(nobody_at(self._address)) if finding.text else None

    async def _found_late(self) -> Credentials:
        """What a daemon on this machine has left that started after we first looked. It does so
        before it serves, so where one serves, that is looked for again. Raises UnreachableError,
        UnauthenticatedError."""
        from koala.wire.connection_diagnosis import speaks_tls  # noqa: PLC0415 - only when it is needed

        if (found := find_credentials(self._address)) is not None:
            return found
        is_there = await speaks_tls(self._address)
        if (found := find_credentials(self._address)) is not None:
            return found
        if not is_there:
            raise UnreachableError(nobody_at(self._address))
        raise UnauthenticatedError(f"no credentials for {self._address}: {_where_looked()}")


def _where_looked() -> str:
    return (
        f"they are looked for in {FILE_VARIABLE}, {TOKEN_VARIABLE} with {AUTHORITY_VARIABLE},"
        " ~/.config/koala/credentials.toml, and on the daemon's machine where it left them for the"
        " account that runs it; `koala user add` makes them"
    )
