"""An agent explains why a stream ended."""

from __future__ import annotations

from typing import Any

import grpc
import pytest

from koala.common.wire.v1.link_pb2_grpc import AgentLinkStub
from koala_agent.link.stream import describe_error


async def test_a_stream_that_ended_while_it_was_written_to_is_no_internal_error() -> None:
    """As gRPC has it: it forgets the status that the daemon gave."""
    async with grpc.aio.insecure_channel("127.0.0.1:1") as channel:
        call: Any = AgentLinkStub(channel).Connect(wait_for_ready=True)
        call._cython_call.set_internal_error("what a write does when it finds the call over")
        with pytest.raises(grpc.aio.AioRpcError) as caught:
            await call.read()
    assert caught.value.code() is grpc.StatusCode.INTERNAL
    assert describe_error(caught.value) == "ended by the daemon while it was written to"


def test_a_status_of_the_daemon_is_said_as_it_is() -> None:
    none = grpc.aio.Metadata()
    told = grpc.aio.AioRpcError(grpc.StatusCode.INTERNAL, none, none, details="a bug")
    assert describe_error(told) == "INTERNAL: a bug"
