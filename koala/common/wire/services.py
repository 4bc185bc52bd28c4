"""Stubs and servicers of gRPC services, made from the descriptors in `koala.common.wire.v1`.

They are the classes that gRPC's compiler would write; `common/wire/v1/*_pb2_grpc.pyi` has their
types. A server answers UNIMPLEMENTED to a method that its servicer does not have.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import grpc
from google.protobuf.descriptor import MethodDescriptor, ServiceDescriptor
from google.protobuf.message import Message
from google.protobuf.message_factory import GetMessageClass


def stub(service: ServiceDescriptor) -> type:
    """Make the class of clients of a service; it takes the channel, and has a method for each."""

    def __init__(self: Any, channel: Any) -> None:  # noqa: N807
        for method, kind, request, reply in _methods(service):
            call = getattr(channel, kind)(
                f"/{service.full_name}/{method.name}",
                request_serializer=request.SerializeToString,
                response_deserializer=reply.FromString,
                _registered_method=True,
            )
            setattr(self, method.name, call)

    return type(f"{service.name}Stub", (), {"__init__": __init__})


def servicer(service: ServiceDescriptor) -> type:
    """Make the base class of servers of a service."""
    return type(f"{service.name}Servicer", (), {})


def adder(service: ServiceDescriptor) -> Callable[[Any, Any], None]:
    """Make the function that adds a servicer to a server."""

    def add_to_server(servicer: Any, server: Any) -> None:
        handlers = {
            method.name: getattr(grpc, f"{kind}_rpc_method_handler")(
                getattr(servicer, method.name),
                request_deserializer=request.FromString,
                response_serializer=_serialize,
            )
            for method, kind, request, reply in _methods(service)
            if hasattr(servicer, method.name)
        }
        # The methods are not registered with gRPC: its asyncio server would wait for each of them
        # in a task of its own, and look at all these tasks again at every call.
        found = grpc.method_handlers_generic_handler(service.full_name, handlers)
        server.add_generic_rpc_handlers((found,))

    return add_to_server


def _serialize(message: Message | bytes) -> bytes:
    """Encode a message. One that goes to many streams is encoded already."""
    return message if isinstance(message, bytes) else message.SerializeToString()


def _methods(
    service: ServiceDescriptor,
) -> Iterator[tuple[MethodDescriptor, str, type[Message], type[Message]]]:
    """Yield each method with gRPC's word for its kind, and the classes of request and reply."""
    for method in service.methods:
        asks = "stream" if method.client_streaming else "unary"
        answers = "stream" if method.server_streaming else "unary"
        request, reply = GetMessageClass(method.input_type), GetMessageClass(method.output_type)
        yield method, f"{asks}_{answers}", request, reply
