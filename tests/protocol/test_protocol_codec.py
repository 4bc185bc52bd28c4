"""Every kind of message of the link has its class, with the fields of `link.proto`."""

from __future__ import annotations

import dataclasses

import pytest

from koala.protocol import codec
from koala.wire.v1 import link_pb2


def test_every_kind_to_an_agent_has_a_class() -> None:
    assert set(codec.TO_AGENT) == {
        field.name for field in link_pb2.ToAgent.DESCRIPTOR.oneofs[0].fields
    }


def test_every_kind_from_an_agent_has_a_class_but_the_registration() -> None:
    kinds = {field.name for field in link_pb2.FromAgent.DESCRIPTOR.oneofs[0].fields}
    assert {kind for kind, _flags in codec.FROM_AGENT.values()} == kinds - {"register"}


@pytest.mark.parametrize("kind", sorted(codec.TO_AGENT))
def test_a_class_to_an_agent_has_all_fields_of_its_kind(kind: str) -> None:
    """A field that only the wire has would be lost on the way."""
    descriptor = link_pb2.ToAgent.DESCRIPTOR.fields_by_name[kind].message_type
    assert descriptor is not None
    names = {field.name for field in dataclasses.fields(codec.TO_AGENT[kind])}
    assert names == {field.name for field in descriptor.fields}
    codec.decoder(codec.TO_AGENT[kind], descriptor)


@pytest.mark.parametrize("cls", list(codec.FROM_AGENT))
def test_a_class_of_an_agent_has_only_fields_of_its_kind(cls: type) -> None:
    kind, flags = codec.FROM_AGENT[cls]
    descriptor = link_pb2.FromAgent.DESCRIPTOR.fields_by_name[kind].message_type
    assert descriptor is not None
    names = {field.name for field in dataclasses.fields(cls)}
    assert names | set(flags) <= {field.name for field in descriptor.fields}
