"""Calls of the daemon: requests, documents and streams, with gRPC's errors as KoalaErrors."""

from __future__ import annotations

import asyncio
import getpass
import os
from collections.abc import AsyncGenerator, AsyncIterator, Awaitable, Callable
from contextlib import aclosing, asynccontextmanager
from typing import TYPE_CHECKING, Any, TypeVar

import grpc

from koala.client.channel import DaemonEndpoint, unreachable_text
from koala.common.identity.credentials import (
    Credentials,
    default_address,
    find_credentials,
    own_daemon,
)
from koala.common.protocol.versions import PROTOCOL
from koala.common.wire.connection_limits import BACK_OFF
from koala.common.wire.status import ERROR_KEY, PROTOCOL_KEY, from_status
from koala.common.wire.v1 import koala_pb2 as pb
from koala.common.wire.v1.koala_pb2_grpc import KoalaStub
from koala.errors import KoalaError, NoAnswerError, SpecError, TimeLimitError, UnreachableError

if TYPE_CHECKING:
    from koala.views.records.base import R

CALL_S = 60.0
DEFAULT_ADDRESS = "127.0.0.1:7740"
ADDRESS_VARIABLE = "KOALA_ADDRESS"

CHANNEL_OPTIONS: tuple[tuple[str, int], ...] = (
    *BACK_OFF,
    # ping_timeout bounds the detection of a dead daemon; keepalive_timeout alone leaves a minute.
    ("grpc.keepalive_time_ms", 10_000),
    ("grpc.keepalive_timeout_ms", 5_000),
    ("grpc.http2.ping_timeout_ms", 5_000),
    ("grpc.max_receive_message_length", -1),
    ("grpc.max_send_message_length", -1),
)

T = TypeVar("T")


class Connection:
    """Connection to a daemon; `timeout` limits each call, in seconds."""

    def __init__(
        self,
        address: str | None,
        *,
        user: str | None = None,
        credentials: Credentials | None = None,
        timeout: float = CALL_S,
    ) -> None:
        """Find the address and the credentials. Raises SpecError, ConfigError."""
        if not timeout > 0:
            raise SpecError(f"timeout = {timeout!r} (expected seconds above 0)")
        address = address or os.environ.get(ADDRESS_VARIABLE)
        if credentials is None:
            address = address or default_address() or own_daemon(DEFAULT_ADDRESS) or DEFAULT_ADDRESS
            credentials = find_credentials(address)
        self.address = address or (credentials and credentials.address) or DEFAULT_ADDRESS
        self.endpoint = DaemonEndpoint(self.address, credentials, options=CHANNEL_OPTIONS)
        self.timeout = timeout
        self._user = _sendable(_user() if user is None else user)
        self._stub: tuple[grpc.aio.Channel, KoalaStub] | None = None  # of the channel in use

    async def __aenter__(self) -> Connection:
        self.endpoint.unlock()
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.endpoint.close()

    @property
    def metadata(self) -> tuple[tuple[str, str], ...]:
        """Metadata of each call."""
        return ((PROTOCOL_KEY, str(PROTOCOL)), *self.endpoint.metadata(self._user))

    async def stub(self) -> KoalaStub:
        """Connect within a bounded time. Raises UnreachableError; UnauthenticatedError when either
        side rejects the other's credentials."""
        channel = await self.endpoint.open()
        if self._stub is None or self._stub[0] is not channel:
            self._stub = channel, KoalaStub(channel)  # makes an object for each method
        return self._stub[1]

    async def call(self, method: str, request: Any, _: type[T]) -> T:  # noqa: ANN401
        """Call a method and return its answer. Raises NoAnswerError after the time limit."""
        try:
            async with asyncio.timeout(self.timeout):
                method_of = getattr(await self.stub(), method)
                answer: T = await method_of(request, metadata=self.metadata, timeout=self.timeout)
                return answer
        except grpc.aio.AioRpcError as error:
            raise self._error(error) from error
        except TimeoutError as error:
            raise self._late() from error

    async def record(self, kind: type[R], method: str, request: Any) -> R:  # noqa: ANN401
        """Call a method that answers with a JSON document, and decode it."""
        from koala.client.answers import decode  # noqa: PLC0415 - late, for commands to start fast

        return decode(kind, (await self.call(method, request, pb.Document)).json)

    async def stream(self, method: str, request: Any) -> AsyncGenerator[Any, None]:  # noqa: ANN401
        """Call a streaming method and yield its messages."""
        call = getattr(await self.stub(), method)(request, metadata=self.metadata)
        try:
            async for part in call:
                yield part
        except grpc.aio.AioRpcError as error:
            raise self._error(error) from error
        finally:
            call.cancel()

    @asynccontextmanager
    async def open_call(self, method: str) -> AsyncIterator[Any]:
        """Open a call with streams both ways for the block; errors of gRPC are KoalaErrors."""
        call = getattr(await self.stub(), method)(metadata=self.metadata)
        try:
            yield call
        except grpc.aio.AioRpcError as error:
            raise self._error(error) from error
        finally:
            call.cancel()

    async def resumable(
        self, open_stream: Callable[[], Awaitable[Any]], *, key: str
    ) -> AsyncGenerator[Any, None]:
        """Yield as `resumable_stream`, with gRPC's errors as KoalaErrors."""
        from koala.client.resumable_stream import resumable_stream  # noqa: PLC0415 - as above

        try:
            async with aclosing(resumable_stream(open_stream, key=key)) as stream:
                async for message in stream:
                    yield message
        except grpc.aio.AioRpcError as error:
            raise self._error(error) from error

    def _error(self, error: grpc.aio.AioRpcError) -> KoalaError:
        if error.code() is grpc.StatusCode.DEADLINE_EXCEEDED:
            return self._late()
        trailing = [(str(key), value) for key, value in error.trailing_metadata() or ()]
        failure = from_status(error.code(), error.details(), trailing)
        if isinstance(failure, UnreachableError):
            has_answered = any(key == ERROR_KEY for key, _ in trailing)
            place = self.address if has_answered else unreachable_text(self.address)
            return UnreachableError(f"{place}: {failure}")
        return failure

    def _late(self) -> NoAnswerError:
        return NoAnswerError(f"{self.address}: no answer within timeout = {self.timeout:g} s")


async def until(
    stream: AsyncGenerator[T, None], timeout: float | None, what: str
) -> AsyncIterator[T]:
    """Yield the items of a stream; raise TimeLimitError if it has not ended after `timeout`."""
    loop = asyncio.get_running_loop()
    ends_at = None if timeout is None else loop.time() + timeout
    async with aclosing(stream):
        while True:
            try:
                async with asyncio.timeout_at(ends_at):
                    item = await anext(stream)
            except StopAsyncIteration:
                return
            except TimeoutError as error:
                if isinstance(error, KoalaError):
                    raise
                raise TimeLimitError(f"{what}: not over within timeout = {timeout:g} s") from error
            yield item


def _user() -> str:
    try:
        return getpass.getuser()
    except (KeyError, OSError):  # an account without a name
        return str(os.getuid())


def _sendable(user: str) -> str:
    """Check that the user name fits into metadata: printable ASCII. Raises SpecError."""
    if not user.isascii() or not user.isprintable():
        raise SpecError(f"user {user!r} (expected printable ASCII)")
    return user
