"""A bare gRPC server that answers with what it was sent; prints its port, ends with its input."""

from __future__ import annotations

import asyncio
import sys

import grpc

SERVICE, METHOD = "bench.Echo", "Say"


async def say(request: bytes, _: object) -> bytes:
    """Answer with the request."""
    return request


async def serve() -> None:
    """Serve until standard input ends."""
    server = grpc.aio.server()
    handler: grpc.RpcMethodHandler[bytes, bytes] = grpc.unary_unary_rpc_method_handler(say)
    methods = grpc.method_handlers_generic_handler(SERVICE, {METHOD: handler})
    server.add_generic_rpc_handlers((methods,))
    port = server.add_insecure_port("127.0.0.1:0")
    await server.start()
    print(port, flush=True)
    await asyncio.to_thread(sys.stdin.read)
    await server.stop(None)


def main() -> int:
    """Run the process."""
    asyncio.run(serve())
    return 0


if __name__ == "__main__":
    sys.exit(main())
