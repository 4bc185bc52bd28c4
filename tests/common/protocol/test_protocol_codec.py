"""Every kind of message of the link has its class, with the fields of `link.proto`."""

from __future__ import annotations

import dataclasses
from typing import Any

import pytest

from koala.common.protocol import codec, messages
from koala.common.protocol.names import ClaimId, SiteName
from koala.common.wire.v1 import link_pb2
from koala.core.model.actions import StopClaim

CLAIM = ClaimId("j1/2/0/1")


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


def test_what_is_encoded_is_decoded_as_it_was() -> None:
    program = messages.Program(executable="/bin/x", label="l", environment=(("A", "1"),), hosts=2)
    number = messages.ArmNumber(epoch=2, counter=7)
    peer = messages.Peer(port=20_000,
        component=0, label="l", site="delft", processors=4, processes=2, address="a", claim=CLAIM,
        hosts=(("n7", 4),), job_type=messages.JobType.MPI,
    )  # fmt: skip
    orders: list[messages.ToAgent] = [
        messages.Hold(
            claim=CLAIM, port=20_000, processors=4, hold_s=9.0, program=program, inputs=("j1/1/t1",)
        ),
        messages.Arm(claim=CLAIM, number=number, release_at=10.0, late_s=2.5, peers=(peer,)),
        messages.KvAnswer(claim=CLAIM, request=1, ok=True, value="v"),
    ]
    for order in orders:
        assert codec.TO_AGENT.decode(codec.TO_AGENT.encode(order)) == order
    end = messages.ClaimEnd(kind=messages.EndKind.EXITED, statuses=(0, -9), ended_at=12.0)
    told: list[messages.FromAgent] = [
        messages.Report(claim=CLAIM, state=messages.ReportState.GONE, end=end, passed_at=3.0),
        messages.Report(claim=CLAIM, state=messages.ReportState.ARMED, armed=number),
        messages.TransferProgress(transfer="j1/1/t1", size_bytes=1, took_s=2.0),
        messages.TransferFinished(transfer="j1/1/t1", size_bytes=1, took_s=2.0),
        messages.TransferFailed(transfer="j1/1/t1", reason="r", at=""),
        messages.FileRemoved(file="f"),
    ]
    for report in told:
        assert codec.FROM_AGENT.decode(codec.FROM_AGENT.encode(report)) == report


def test_a_class_that_extends_a_message_is_encoded_as_the_message() -> None:
    """As the core's actions do, which name the site besides."""
    action = StopClaim(claim=CLAIM, site=SiteName("delft"))
    assert codec.TO_AGENT.encode(action) == codec.TO_AGENT.encode(messages.Stop(claim=CLAIM))


def test_a_copy_that_is_both_finished_and_failed_is_of_a_later_protocol() -> None:
    report = link_pb2.TransferReport(transfer="j1/1/t1", is_finished=True, is_failed=True)
    assert codec.FROM_AGENT.decode(link_pb2.FromAgent(transfer=report)) is None


def test_a_registration_of_a_later_protocol_names_its_sender_alone() -> None:
    """The rest may mean anything."""
    register = link_pb2.Register(protocol=99, site="a b", idle=2**31)
    read = codec.FROM_AGENT.decode(link_pb2.FromAgent(register=register))
    assert isinstance(read, messages.Register)
    assert (read.protocol, read.site, read.idle) == (99, "a b", 0)
