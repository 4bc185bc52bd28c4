"""Messages to values and errors to statuses (any bytes: `tests/fuzz/links.py`)."""

from typing import Any

import grpc
import pytest
from hypothesis import given
from hypothesis import strategies as st

from koala.common.protocol import messages
from koala.common.protocol.codec import FROM_AGENT
from koala.common.protocol.versions import PROTOCOL
from koala.common.wire import status
from koala.common.wire.v1 import link_pb2 as pb
from koala.errors import (
    ConfigError,
    ExhaustedError,
    JournalError,
    KoalaError,
    Lack,
    LocalManagerError,
    Position,
    RejectedError,
    SpecError,
    UnknownJobError,
    UnknownSiteError,
    UnreachableError,
)

ERRORS: list[KoalaError] = [
    SpecError("wrong"),
    SpecError("wrong", Position(line=3, column=7, source="&(é=1)")),
    UnknownJobError("no job 'j9'"),
    UnknownSiteError("no site"),
    RejectedError("full", Lack(component="left", site="", wanted=5, had=0)),
    ConfigError("key"),
    JournalError("disk"),
    UnreachableError("away"),
    LocalManagerError("qsub", transient=True),
    KoalaError("other"),
]


@pytest.mark.parametrize("error", ERRORS, ids=lambda error: type(error).__name__)
def test_an_error_comes_back_as_itself(error: KoalaError) -> None:
    code, details, trailing = status.to_status(error)
    again = status.from_status(code, details, trailing)
    assert type(again) is type(error)
    assert str(again) == str(error)
    if isinstance(error, SpecError) and isinstance(again, SpecError):
        assert again.position == error.position
    if isinstance(error, LocalManagerError) and isinstance(again, LocalManagerError):
        assert again.transient
    if isinstance(error, RejectedError) and isinstance(again, RejectedError):
        assert again.lack == error.lack


@pytest.mark.parametrize(
    ("code", "kind"),
    [
        (grpc.StatusCode.UNAVAILABLE, UnreachableError),
        (grpc.StatusCode.CANCELLED, UnreachableError),
        (grpc.StatusCode.DEADLINE_EXCEEDED, UnreachableError),
        (grpc.StatusCode.INVALID_ARGUMENT, SpecError),
        (grpc.StatusCode.RESOURCE_EXHAUSTED, ExhaustedError),
        (grpc.StatusCode.INTERNAL, KoalaError),
    ],
)
def test_a_status_of_grpcs_own_becomes_the_nearest_error(
    code: grpc.StatusCode, kind: type[KoalaError]
) -> None:
    for trailing in (None, [(status.ERROR_KEY, b"garbage")], [(status.ERROR_KEY, b"{}")]):
        assert type(status.from_status(code, "text", trailing)) is kind


@pytest.mark.parametrize("error", ERRORS[:2] + ERRORS[4:5], ids=lambda error: type(error).__name__)
def test_one_submissions_error_comes_back_as_itself(error: KoalaError) -> None:
    again = status.from_submitted(status.submitted_error(error))
    assert type(again) is type(error)
    assert str(again) == str(error)
    if isinstance(error, RejectedError) and isinstance(again, RejectedError):
        assert again.lack == error.lack


@pytest.mark.parametrize(
    ("facts", "words"),
    [
        ({"address": "a\n\x1b[2J"}, r"address = 'a\\n\\x1b\[2J': control characters"),
        ({"address": "../etc"}, r"address = '../etc' \(expected the name or number of a machine"),
        ({"address": "one two"}, "address = 'one two'"),
        ({"serves": "../:99999999"}, r"serves = '../:99999999' \(expected HOST:PORT"),
        ({"serves": "delft:65536"}, "serves = .* a port from 1 to 65535"),
        ({"serves": "delft:0"}, "serves = "),
        ({"serves": "delft"}, "serves = "),
        ({"serves": "delft:1\n"}, "serves = .*control characters"),
        ({"owner": "an\0n"}, "owner = .*control characters"),
        ({"users": ["ann", "b\x1bob"]}, "users = .*control characters"),
        ({"honours": ["queue\r"]}, "honours = .*control characters"),
    ],
)
def test_facts_that_no_site_can_have_are_refused(facts: dict[str, Any], words: str) -> None:
    register = pb.Register(protocol=PROTOCOL, site="delft", facts=pb.Facts(processors=4, **facts))
    with pytest.raises(SpecError, match=words):
        FROM_AGENT.decode(pb.FromAgent(register=register))


@pytest.mark.parametrize(
    ("address", "serves"),
    [
        ("", ""),
        ("10.0.0.1", "10.0.0.1:7401"),
        ("::1", "[fe80::1]:65535"),
        ("n_1.delft.example", "n_1.delft.example:1"),
    ],
)
def test_where_a_site_is_reached_is_taken_as_it_is(address: str, serves: str) -> None:
    facts = pb.Facts(processors=4, address=address, serves=serves)
    decoded = FROM_AGENT.decode(
        pb.FromAgent(register=pb.Register(protocol=PROTOCOL, site="delft", facts=facts))
    )
    assert isinstance(decoded, messages.Register)
    assert (decoded.facts.address, decoded.facts.serves) == (address, serves)


texts = st.text(max_size=12)
floats = st.floats()
counts = st.integers(0, 2**32 - 1)
large = st.integers(0, 2**64 - 1)
claims = st.sampled_from(["j1/1/0/1", "", "../..", "j/1/0/x"])
reports = st.builds(
    pb.ClaimReport,
    claim=claims,
    state=st.integers(0, 7),
    nonce=texts,
    armed=st.none() | st.builds(pb.ArmNumber, epoch=large, counter=large),
    passed_at=floats,
    end=st.builds(
        pb.End,
        kind=st.sampled_from(["exited", "fenced", "refused", "", "x"]),
        reason=texts,
        statuses=st.lists(st.integers(-(2**31), 2**31 - 1), max_size=3),
        ended_at=floats,
        cpu_s=floats,
        memory_bytes=large,
    ),
)
any_message = st.one_of(
    st.builds(pb.FromAgent, claim=reports),
    st.builds(
        pb.FromAgent,
        register=st.builds(
            pb.Register,
            protocol=st.integers(0, PROTOCOL),
            site=st.sampled_from(["delft", "", "a b", "x" * 65]),
            epoch_seen=large,
            idle=counts,
            facts=st.builds(
                pb.Facts,
                processors=counts,
                grace_s=floats,
                owner=texts,
                address=texts,
                serves=texts,
                honours=st.lists(st.sampled_from(["queue", "x" * 300]), max_size=2),
            ),
        ),
    ),
    st.builds(
        pb.FromAgent,
        transfer=st.builds(
            pb.TransferReport,
            transfer=st.sampled_from(["j1/1/t1", "j1"]),
            is_finished=st.booleans(),
            is_failed=st.booleans(),
            size_bytes=large,
            took_s=floats,
            at=st.sampled_from(["", "delft", " "]),
        ),
    ),
    st.builds(pb.FromAgent, ping=st.builds(pb.Ping, claim=claims, sent_at=floats)),
    st.builds(pb.FromAgent, kv_get=st.builds(pb.KvGet, claim=claims, wait_s=floats)),
    st.builds(pb.FromAgent, file=st.builds(pb.FileReport, file=texts, size_bytes=large)),
)


@given(any_message)
def test_what_is_read_can_be_journaled(message: pb.FromAgent) -> None:
    """Finite numbers, known kinds: an agent cannot make the journal unreadable."""
    import msgspec

    try:
        decoded = FROM_AGENT.decode(message)
    except SpecError:
        return
    if decoded is None:
        return
    if isinstance(decoded, messages.Ping):  # its instant is the starter's own and only given back
        return
    text = msgspec.json.encode(decoded)
    assert msgspec.json.decode(text, type=type(decoded)) == decoded


def test_an_agent_cannot_say_that_a_claim_was_fenced() -> None:
    """Only the daemon concludes that from silence."""
    report = pb.ClaimReport(claim="j1/1/0/1", state=pb.CLAIM_STATE_GONE, end=pb.End(kind="fenced"))
    with pytest.raises(SpecError, match=r"'fenced' \(expected one of"):
        FROM_AGENT.decode(pb.FromAgent(claim=report))
