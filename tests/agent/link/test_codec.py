"""Messages and values: what is said arrives as it was meant, and nothing else gets through (any
bytes: `tests/fuzz/links.py`)."""

from __future__ import annotations

import math

import pytest

from koala.common.protocol import messages
from koala.common.protocol.codec import FROM_AGENT
from koala.common.protocol.messages import LogChunk
from koala.common.protocol.names import ClaimId, SiteName
from koala.common.protocol.versions import PROTOCOL
from koala.common.wire.v1 import link_pb2
from koala.errors import SpecError
from koala_agent.link import codec, session_events

FACTS = codec.SiteDescription(
    version="1.2",
    site=SiteName("delft"),
    facts=messages.Facts(
        processors=8,
        grace_s=5.0,
        starts_after_stop=True,
        address="10.0.0.1",
        serves="10.0.0.1:7401",
        owner="anna",
        honours=("queue",),
        may_kill_local=True,
        notice="its dialect is new",
        gate="hold",
        books="qrsub",
    ),
)
CLAIM = ClaimId("j1/2/0/1")


def order_in(**kind: object) -> session_events.Order:
    decoded = codec.decode(link_pb2.ToAgent(**kind))
    assert isinstance(decoded, session_events.Order)
    return decoded


@pytest.mark.parametrize(
    ("kind", "body", "word"),
    [
        ("stop", link_pb2.Stop(claim="../etc"), "'../etc' is not a claim"),
        ("hold", link_pb2.Hold(claim=CLAIM, hold_s=1.0, port=1), "for 0 processors"),
        ("hold", link_pb2.Hold(claim=CLAIM, processors=1, hold_s=math.nan, port=1), "hold_s = nan"),
        ("hold", link_pb2.Hold(claim=CLAIM, processors=1, hold_s=math.inf, port=1), "hold_s = inf"),
        (
            "hold",
            link_pb2.Hold(
                claim=CLAIM,
                processors=1,
                hold_s=1.0,
                port=1,
                program=link_pb2.Program(cpu_time_s=math.inf),
            ),
            "cpu_time_s = inf",  # the store has no word for it, and could not be read again
        ),
        (
            "hold",
            link_pb2.Hold(
                claim=CLAIM,
                processors=1,
                hold_s=1.0,
                port=1,
                program=link_pb2.Program(executable="/bin/true", queue="short\0"),
            ),
            "NUL character",  # no command line and no path can have it
        ),
        (
            "hold",
            link_pb2.Hold(claim=CLAIM, processors=1, hold_s=1.0, chunk_offset=2**63, port=1),
            "chunk_offset = 9223372036854775808",
        ),
        *(
            (kind, body(transfer="t", booked_bps=rate), f"booked_bps = {rate}")
            for kind, body in (("fetch", link_pb2.Fetch), ("serve", link_pb2.Serve))
            for rate in (-1.0, math.nan, math.inf, 1e-300)
        ),
        ("log_request", link_pb2.LogRequest(claim=CLAIM, offset=2**63), "offset = 92"),
        ("hold", link_pb2.Hold(claim=CLAIM, processors=1, hold_s=1.0), "port = 0"),
        ("arm", link_pb2.Arm(claim=CLAIM, late_s=1.0), "do not include it"),
        ("pace", link_pb2.Pace(claim=CLAIM), "share = 0"),
        ("pace", link_pb2.Pace(claim=CLAIM, share=1.5), "share = 1.5"),
        ("try_paths", link_pb2.TryPaths(claim=CLAIM, listens=[0], limit_s=1.0), "port = 0"),
        ("try_paths", link_pb2.TryPaths(claim=CLAIM, listens=[70_000], limit_s=1.0), "1 to 65535"),
        ("try_paths", link_pb2.TryPaths(claim=CLAIM, listens=[80]), "limit_s = 0"),
        ("release", link_pb2.Release(claim=CLAIM, release_at=math.inf), "release_at = inf"),
        ("welcome", link_pb2.Welcome(epoch=1, protocol=PROTOCOL), "hold_lease_s = 0.0"),
    ],
)
def test_what_cannot_be_meant_is_an_error_that_says_so(kind: str, body: object, word: str) -> None:
    with pytest.raises(SpecError) as caught:
        order_in(**{kind: body})
    assert word in str(caught.value)


def test_a_registration_has_the_facts_of_the_site() -> None:
    register = messages.Register(protocol=PROTOCOL, session="s", epoch_seen=4, idle=7)
    sent = codec.encode(register, lambda: FACTS).register
    assert (sent.protocol, sent.version, sent.site, sent.session) == (PROTOCOL, "1.2", "delft", "s")
    assert (sent.epoch_seen, sent.idle) == (4, 7)
    assert sent.facts == link_pb2.Facts(
        processors=8,
        grace_s=5.0,
        starts_after_stop=True,
        address="10.0.0.1",
        serves="10.0.0.1:7401",
        owner="anna",
        honours=["queue"],
        may_kill_local=True,
        notice="its dialect is new",
        gate="hold",
        books="qrsub",
    )


def test_a_claim_s_report_goes_out_with_all_that_is_known() -> None:
    end = messages.ClaimEnd(
        kind=messages.EndKind.EXITED, reason="", statuses=(0, -9), ended_at=12.0, cpu_s=1.5
    )
    report = messages.Report(
        claim=CLAIM, state=messages.ReportState.GONE, nonce="n", passed_at=3.0, end=end
    )
    sent = codec.encode(report, lambda: FACTS).claim
    assert (sent.claim, sent.state) == (CLAIM, link_pb2.CLAIM_STATE_GONE)
    assert (sent.nonce, sent.passed_at, list(sent.end.statuses)) == ("n", 3.0, [0, -9])
    assert sent.end.kind == "exited"
    assert not sent.HasField("armed")
    asked = messages.Report(claim=CLAIM, state=messages.ReportState.ASKED)
    assert not codec.encode(asked, lambda: FACTS).claim.HasField("end")


@pytest.mark.parametrize(
    ("report", "kind"),
    [
        (messages.InventoryEnd(), "inventory_end"),
        (messages.Beat(number=1, sent_at=2.0), "beat"),
        (messages.Goodbye(reason="r"), "goodbye"),
        (messages.Ping(claim=CLAIM, nonce="n", sent_at=1.0), "ping"),
        (messages.KvPut(claim=CLAIM, request=0, name="a", value="b"), "kv_put"),
        (messages.KvGet(claim=CLAIM, request=1, name="a", wait_s=3.0), "kv_get"),
        (LogChunk(request=1, offset=0, data=b"x"), "log"),
        (messages.TransferProgress(transfer="t", size_bytes=1, took_s=2.0), "transfer"),
        (messages.TransferFinished(transfer="t", size_bytes=1, took_s=2.0), "transfer"),
        (messages.TransferFailed(transfer="t", reason="r", at="delft"), "transfer"),
        (messages.FileFound(file="f", size_bytes=1, checksum="c"), "file"),
        (messages.FileRemoved(file="f"), "file"),
    ],
)
def test_every_report_has_its_message(report: object, kind: str) -> None:
    assert codec.encode(report, lambda: FACTS).WhichOneof("kind") == kind


@pytest.mark.parametrize("start_in_s", [-1.0, math.nan, math.inf])
def test_a_wait_that_no_queue_has_is_refused(start_in_s: float) -> None:
    wait = link_pb2.Wait(claim=CLAIM, start_in_s=start_in_s)
    with pytest.raises(SpecError, match="start_in_s"):
        FROM_AGENT.decode(link_pb2.FromAgent(site=link_pb2.SiteReport(waits=[wait])))
