"""Every kind of message of the link has its class, with the fields of `link.proto`."""

from __future__ import annotations

import dataclasses
from typing import Any

import pytest

from koala.protocol import codec
from koala.wire.v1 import link_pb2


def test_every_kind_to_an_agent_has_a_class() -> None:
    assert {kind for kind, _flags in codec.TO_AGENT.classes.values()} == {
        field.name for field in link_pb2.ToAgent.DESCRIPTOR.oneofs[0].fields
    }


def test_every_kind_from_an_agent_has_a_class() -> None:
    kinds = {field.name for field in link_pb2.FromAgent.DESCRIPTOR.oneofs[0].fields}
    assert {kind for kind, _flags in codec.FROM_AGENT.classes.values()} == kinds


@pytest.mark.parametrize("direction", [codec.TO_AGENT, codec.FROM_AGENT])
def test_the_classes_of_a_kind_have_all_fields_of_it(direction: codec.Direction[Any, Any]) -> None:
    """A field that only the wire has would be lost on the way."""
    found: dict[str, set[str]] = {}
    for cls, (kind, flags) in direction.classes.items():
        found.setdefault(kind, set()).update(flags, (f.name for f in dataclasses.fields(cls)))
    assert found == {
        kind: {field.name for field in direction.descriptor(kind).fields} for kind in found
    }
