"""Every call of every service of a daemon that speaks TLS, with good, odd and spoilt messages.

What must hold of each answer: it is one of ours. A status that gRPC gives to an exception of a
method means that something was not foreseen.
"""

from __future__ import annotations

import asyncio
from contextlib import suppress
from pathlib import Path
from random import Random
from typing import Any

import grpc
from google.protobuf.descriptor import MethodDescriptor
from google.protobuf.message import Message
from google.protobuf.message_factory import GetMessageClass

from koala.common.wire.status import PROTOCOL_KEY, TOKEN_KEY, TOKEN_SCHEME
from tests.common.identity.stage import secured
from tests.common.identity.test_rules import methods
from tests.fuzz.hostile_values import fill, sent, utf8

WATCHED_S = 0.05
"""How long a stream that would go on is looked at."""
LIMIT_S = 60.0
USERS = (("ann", "user"), ("olga", "operator"))
ENDED_MEANWHILE = "Internal error from Core"
"""What a client of gRPC says by itself when it writes into a stream that the server has ended."""
UNFORESEEN = (grpc.StatusCode.UNKNOWN, grpc.StatusCode.INTERNAL)
NAMES = ("j1", "j2", "delft", "ann", "administrator", "", "stdout", "user", "drain", "lost")


def a_request(random: Random, method: MethodDescriptor) -> bytes:
    """A message for a call, filled with anything, and now and then spoilt."""
    message: Message = GetMessageClass(method.input_type)()
    fill(random, message)
    for field in message.DESCRIPTOR.fields:
        if field.type == field.TYPE_STRING and not field.is_repeated and random.randrange(2):
            setattr(message, field.name, random.choice(NAMES))
    for field in message.DESCRIPTOR.fields:
        if field.name == "submissions" and random.randrange(2):
            added = getattr(message, field.name).add()
            added.rsl = "&(executable=/bin/true)"
            added.key = utf8(random)
    return sent(random, message)


async def answer(channel: Any, method: MethodDescriptor, lot: list[bytes], metadata: Any) -> str:
    """Return what is wrong with the answer; empty when nothing is."""
    details: str | None
    try:
        code, details = await _status(channel, method, lot, metadata)
    except TimeoutError:  # a stream that goes on
        return ""
    except grpc.aio.AioRpcError as error:
        code, details = error.code(), error.details()
    if details == ENDED_MEANWHILE:
        return ""
    if code in UNFORESEEN or code is grpc.StatusCode.DEADLINE_EXCEEDED:
        return f"{code.name}: {(details or '')[:300]}"
    return ""


async def _status(
    channel: Any, method: MethodDescriptor, lot: list[bytes], metadata: Any
) -> tuple[grpc.StatusCode, str]:
    """Return the status of a call, once it is over."""
    path = f"/{method.containing_service.full_name}/{method.name}"
    call: Any
    if method.client_streaming:
        call = channel.stream_stream(path)(metadata=metadata, timeout=LIMIT_S)
        # It may be refused before all is written; the status says why.
        with suppress(asyncio.InvalidStateError, grpc.aio.AioRpcError):
            for data in lot:
                await call.write(data)
            await call.done_writing()
    elif method.server_streaming:
        call = channel.unary_stream(path)(lot[0], metadata=metadata, timeout=LIMIT_S)
    else:
        call = channel.unary_unary(path)(lot[0], metadata=metadata, timeout=LIMIT_S)
    try:
        if method.server_streaming:
            async with asyncio.timeout(WATCHED_S):
                while await call.read() is not grpc.aio.EOF:
                    pass
        return await call.code(), await call.details()
    finally:
        call.cancel()


async def play(folder: Path, *, cases: int, seed: int) -> list[str]:
    """So many calls by all sorts of callers; what went wrong."""
    random = Random(f"services {seed}")
    harm = []
    calls = sorted(methods().items())
    async with secured(folder) as stage:
        # The administrator's own token is spared: some request would revoke it.
        users = [await stage.user(name, role) for name, role in USERS]
        tokens = [user.token for user in users]
        async with (
            stage.channel(None) as plain,
            stage.channel(await stage.site("delft")) as certified,
        ):
            for number in range(cases):
                call, method = random.choice(calls)
                lot = [a_request(random, method) for _ in range(random.choice((1, 1, 3)))]
                metadata = [(PROTOCOL_KEY, random.choice(("1", "1", "1", "1", "x")))]
                is_site = call.startswith(("AgentLink", "Enrolment/Renew"))
                token = random.choice((*tokens, *tokens, "koala_0_wrong", ""))
                if token and not is_site:
                    metadata.append((TOKEN_KEY, TOKEN_SCHEME + token))
                wrong = await answer(certified if is_site else plain, method, lot, metadata)
                if wrong:
                    harm.append(f"call {number}: {call} of {lot!r}: {wrong}")
        async with stage.client() as client:  # it is there, and knows what it knew
            assert {name for name, _ in USERS} <= {user["user"] for user in await client.users()}
    return harm
