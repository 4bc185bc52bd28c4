"""Messages and values: what is said arrives as it was meant, and nothing else gets through."""

from __future__ import annotations

import math

import pytest
from google.protobuf.message import DecodeError
from hypothesis import given
from hypothesis import strategies as st

from koala.common.protocol import messages
from koala.common.protocol.codec import FROM_AGENT, TO_AGENT
from koala.common.protocol.messages import LogChunk, LogRequest, PathTarget
from koala.common.protocol.names import ClaimId, SiteName
from koala.common.wire.v1 import link_pb2
from koala.core.model.actions import PaceClaim, TryPaths
from koala.core.model.values import ClaimId as CoreClaimId
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
    ),
)
CLAIM = ClaimId("j1/2/0/1")


def order_in(**kind: object) -> session_events.Order:
    decoded = codec.decode(link_pb2.ToAgent(**kind))
    assert isinstance(decoded, session_events.Order)
    return decoded


def test_a_hold_arrives_with_its_program_and_names_its_claim() -> None:
    program = link_pb2.Program(
        label="left",
        executable="/bin/true",
        arguments=["a", ""],
        environment=[link_pb2.Variable(name="A", value="1")],
        processes=4,
        wall_time_s=60.0,
        output_files=["out"],
    )
    hold = link_pb2.Hold(
        claim=CLAIM,
        ask_number=3,
        owner="anna",
        processors=4,
        hold_s=900.0,
        no_barrier=True,
        program=program,
        inputs=["j1/2/t1"],
        local_input="data",
        chunk_offset=5,
        chunk_bytes=6,
        may_kill=True,
        port=20_001,
        waits=True,
        is_gated=True,
    )
    order = order_in(hold=hold)
    assert order.claim == CLAIM
    assert order.body == messages.Hold(
        claim=CLAIM,
        processors=4,
        hold_s=900.0,
        program=messages.Program(
            executable="/bin/true",
            label="left",
            arguments=("a", ""),
            environment=(("A", "1"),),
            processes=4,
            wall_time_s=60.0,
            output_files=("out",),
        ),
        ask_number=3,
        owner="anna",
        no_barrier=True,
        inputs=("j1/2/t1",),
        local_input="data",
        chunk_offset=5,
        chunk_bytes=6,
        may_kill=True,
        port=20_001,
        waits=True,
        is_gated=True,
    )


def test_arm_and_release_arrive_with_their_number() -> None:
    peer = link_pb2.Peer(
        component=0, label="l", site="delft", processors=4, processes=2, address="a", claim=CLAIM,
        hosts=[link_pb2.Host(name="n7", processors=4)], job_type="mpi", port=20_001,
    )  # fmt: skip
    number = link_pb2.ArmNumber(epoch=2, counter=7)
    arm = link_pb2.Arm(claim=CLAIM, number=number, release_at=10.0, late_s=2.5, peers=[peer])
    body = order_in(arm=arm).body
    assert isinstance(body, messages.Arm)
    assert body.number == messages.ArmNumber(epoch=2, counter=7)
    assert body.peers[0].claim == CLAIM
    assert (body.peers[0].hosts, body.peers[0].job_type) == ((("n7", 4),), "mpi")
    release = order_in(release=link_pb2.Release(claim=CLAIM, number=number, release_at=10.0))
    assert release.body == messages.Release(claim=CLAIM, number=body.number, release_at=10.0)


def test_transfers_are_named_by_fetch_and_serve_and_not_by_a_cancel() -> None:
    fetch = order_in(fetch=link_pb2.Fetch(transfer="j1/1/t1", file="f", size_bytes=5))
    assert fetch.transfer == "j1/1/t1"
    assert isinstance(fetch.body, messages.FetchOrder)
    serve = order_in(serve=link_pb2.Serve(transfer="j1/1/t2", file="f", relay="h:1"))
    assert serve.transfer == "j1/1/t2"
    assert isinstance(serve.body, messages.ServeOrder)
    cancel = order_in(cancel_transfer=link_pb2.CancelTransfer(transfer="j1/1/t1"))
    assert cancel == session_events.Order(body=messages.CancelTransfer(transfer="j1/1/t1"))


def test_answers_to_a_starter_name_no_claim_as_wanted() -> None:
    """A pong in the pipe must not keep a claim alive that the daemon no longer wants."""
    pong = order_in(pong=link_pb2.Pong(claim=CLAIM, nonce="n", sent_at=1.0, now=2.0))
    assert pong == session_events.Order(
        body=messages.Pong(claim=CLAIM, nonce="n", sent_at=1.0, now=2.0)
    )
    answer = order_in(kv_answer=link_pb2.KvAnswer(claim=CLAIM, request=4, ok=True, value="v"))
    assert answer.claim is None
    request = order_in(log_request=link_pb2.LogRequest(request=1, claim=CLAIM, stream="stdout"))
    assert isinstance(request.body, LogRequest)


def test_the_session_s_own_messages_arrive() -> None:
    welcome = link_pb2.Welcome(
        epoch=3, protocol=1, hold_lease_s=60, run_lease_s=math.inf, kill_s=0, now=5.5, relay="h:1"
    )
    assert codec.decode(link_pb2.ToAgent(welcome=welcome)) == messages.Welcome(
        epoch=3,
        protocol=1,
        hold_lease_s=60,
        run_lease_s=math.inf,
        kill_s=0,
        now=5.5,
        relay="h:1",
    )
    assert codec.decode(
        link_pb2.ToAgent(reject=link_pb2.Reject(reason="r", is_final=True))
    ) == messages.Reject(reason="r", is_final=True)
    ended = link_pb2.ToAgent(wanted_end=link_pb2.WantedEnd())
    assert codec.decode(ended) == messages.WantedEnd()
    goodbye = link_pb2.ToAgent(goodbye=link_pb2.Goodbye(reason="r"))
    assert codec.decode(goodbye) == messages.Goodbye(reason="r")
    assert codec.decode(link_pb2.ToAgent()) is None, "a kind of a later protocol is ignored"


@pytest.mark.parametrize(
    ("kind", "body", "word"),
    [
        ("stop", link_pb2.Stop(claim="../etc"), "'../etc' is no claim"),
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
        ("welcome", link_pb2.Welcome(epoch=1, protocol=1), "hold_lease_s = 0.0"),
    ],
)
def test_what_cannot_be_meant_is_an_error_that_says_so(kind: str, body: object, word: str) -> None:
    with pytest.raises(SpecError) as caught:
        order_in(**{kind: body})
    assert word in str(caught.value)


@given(st.binary(max_size=200))
def test_whatever_bytes_come_decoding_gives_a_value_or_our_error(content: bytes) -> None:
    try:
        message = link_pb2.ToAgent.FromString(content)
    except DecodeError:
        return
    try:
        codec.decode(message)
    except SpecError:
        return


@given(
    st.sampled_from([kind.name for kind in link_pb2.ToAgent.DESCRIPTOR.oneofs[0].fields]),
    st.binary(max_size=100),
)
def test_whatever_a_known_kind_holds_decoding_gives_a_value_or_our_error(
    kind: str, content: bytes
) -> None:
    """Random bytes are rarely a known kind; this makes each of them one."""
    message = link_pb2.ToAgent()
    try:
        getattr(message, kind).MergeFromString(content)
    except DecodeError:
        return
    getattr(message, kind).SetInParent()
    try:
        assert codec.decode(message) is not None
    except SpecError:
        return


def test_a_registration_has_the_facts_of_the_site() -> None:
    register = messages.Register(protocol=1, session="s", epoch_seen=4, idle=7)
    sent = codec.encode(register, lambda: FACTS).register
    assert (sent.protocol, sent.version, sent.site, sent.session) == (1, "1.2", "delft", "s")
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


@pytest.mark.parametrize("state", list(messages.ReportState))
def test_every_state_of_a_claim_has_its_word_on_the_wire(state: messages.ReportState) -> None:
    sent = codec.encode(messages.Report(claim=CLAIM, state=state), lambda: FACTS).claim
    assert link_pb2.ClaimState.Name(sent.state) == f"CLAIM_STATE_{state.name}"


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


def test_how_far_a_copy_is_crosses_the_link_whole_and_so_does_how_often_to_tell() -> None:
    told = codec.encode(
        messages.TransferProgress(transfer="j1/1/t1", size_bytes=7, took_s=2.5), lambda: FACTS
    )
    assert FROM_AGENT.decode(told) == messages.TransferProgress(
        transfer="j1/1/t1", size_bytes=7, took_s=2.5
    )
    fetch = messages.FetchOrder(
        transfer="j1/1/t1",
        file="data",
        source="a",
        address="a:1",
        token="t",
        size_bytes=10,
        report_s=1.5,
    )
    order = codec.decode(TO_AGENT.encode(fetch))
    assert isinstance(order, session_events.Order)
    assert order.body == fetch


def test_progress_and_the_share_that_it_brings_cross_the_link_whole() -> None:
    pace = PaceClaim(claim=CoreClaimId(CLAIM), site=SiteName("a"), share=0.25)
    order = codec.decode(TO_AGENT.encode(pace))
    assert isinstance(order, session_events.Order)
    assert order.body == messages.Pace(claim=ClaimId(CLAIM), share=0.25)
    report = messages.Progress(claim=ClaimId(CLAIM), cycle=7, work=2.5, is_told=True, can_pace=True)
    decoded = FROM_AGENT.decode(codec.encode(report, lambda: FACTS))
    assert decoded == messages.Progress(
        claim=CoreClaimId(CLAIM), cycle=7, work=2.5, is_told=True, can_pace=True
    )


def test_waits_of_tickets_cross_the_link_whole_and_unknown_is_not_now() -> None:
    figures = messages.SiteFigures(
        idle=0,
        through=1,
        processors=8,
        local_processors=8,
        queued_jobs=5,
        waits=(
            messages.Wait(claim=CLAIM, start_in_s=0.0, source="model"),
            messages.Wait(claim=ClaimId("j1/2/0/2"), start_in_s=60.5, source="model"),
            messages.Wait(claim=ClaimId("j1/2/0/3")),
        ),
        foreign_queued=3,
        gate="user hold",
        gate_tried="keeps the place: tried 2026-11-29",
        outlook=(messages.Outlook(processors=8, run_s=600.0, start_in_s=0.0),),
    )
    assert FROM_AGENT.decode(codec.encode(figures, lambda: FACTS)) == figures


@pytest.mark.parametrize("start_in_s", [-1.0, math.nan, math.inf])
def test_a_wait_that_no_queue_has_is_refused(start_in_s: float) -> None:
    wait = link_pb2.Wait(claim=CLAIM, start_in_s=start_in_s)
    with pytest.raises(SpecError, match="start_in_s"):
        FROM_AGENT.decode(link_pb2.FromAgent(site=link_pb2.SiteReport(waits=[wait])))


def test_paths_and_what_became_of_them_cross_the_link_whole() -> None:
    """From the daemon's action to the agent's order, and from its report back to the daemon."""
    target = PathTarget(label="b1", address="there", port=29500, claim=CoreClaimId("j1/1/1/1"))
    action = TryPaths(
        claim=CoreClaimId(CLAIM),
        site=SiteName("a"),
        label="a1",
        address="here",
        listens=(80, 29500),
        targets=(target,),
        limit_s=5.0,
    )
    order = codec.decode(TO_AGENT.encode(action))
    assert isinstance(order, session_events.Order)
    body = order.body
    assert isinstance(body, messages.TryPaths)
    assert (order.claim, body.listens, body.limit_s) == (CLAIM, (80, 29500), 5.0)
    assert body.targets == (
        messages.PathTarget(label="b1", address="there", port=29500, claim=ClaimId("j1/1/1/1")),
    )
    report = messages.PathsReport(claim=ClaimId(CLAIM), problem="a1 -> b1:29500 refused")
    decoded = FROM_AGENT.decode(codec.encode(report, lambda: FACTS))
    assert decoded == messages.PathsReport(claim=CoreClaimId(CLAIM), problem=report.problem)
