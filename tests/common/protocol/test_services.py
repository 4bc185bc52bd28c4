"""Stubs and servicers made from descriptors: each kind of call arrives, with its messages."""

from collections.abc import AsyncIterator
from typing import Any

import grpc
import pytest

from koala.common.wire.v1 import files_pb2 as pb
from koala.common.wire.v1 import files_pb2_grpc, identity_pb2, identity_pb2_grpc

pytestmark = pytest.mark.live


class Files(files_pb2_grpc.FilesServicer, files_pb2_grpc.RelayServicer):
    """Get alone."""

    async def Get(  # noqa: N802 - gRPC's name
        self, request: pb.GetRequest, _: Any
    ) -> AsyncIterator[pb.Frame]:
        for word in (b"some", request.token.encode()):
            yield pb.Frame(data=word)


async def test_streams_and_single_messages_arrive_and_what_is_missing_is_unimplemented() -> None:
    server = grpc.aio.server()
    served: Any = Files
    files_pb2_grpc.add_FilesServicer_to_server(served(), server)
    files_pb2_grpc.add_RelayServicer_to_server(served(), server)
    port = server.add_insecure_port("127.0.0.1:0")
    await server.start()
    try:
        async with grpc.aio.insecure_channel(f"127.0.0.1:{port}") as channel:
            read = files_pb2_grpc.FilesStub(channel).Get(pb.GetRequest(token="bytes"))
            assert [frame.data async for frame in read] == [b"some", b"bytes"]
            relay = files_pb2_grpc.RelayStub(channel)
            with pytest.raises(grpc.aio.AioRpcError) as missing:
                await relay.Put(iter([])).read()
            assert missing.value.code() is grpc.StatusCode.UNIMPLEMENTED
            enrolment = identity_pb2_grpc.EnrolmentStub(channel)
            with pytest.raises(grpc.aio.AioRpcError) as unknown:
                await enrolment.Where(identity_pb2.WhereRequest())
            assert unknown.value.code() is grpc.StatusCode.UNIMPLEMENTED
    finally:
        await server.stop(None)
