"""Scripts of sessions: what the daemon's end believes and answers."""

from dataclasses import replace
from functools import partial
from typing import Any

from koala.common.protocol.codec import TO_AGENT
from koala.common.protocol.messages import (
    Beat,
    Facts,
    FromAgent,
    InventoryEnd,
    Register,
    Reject,
    Report,
    ReportState,
    Stop,
    Watermark,
)
from koala.common.protocol.versions import PROTOCOL
from koala.core.model.values import ClaimId, SiteName, UserName
from koala.daemon.agents.session import (
    BEATS_MAX,
    Allowlist,
    DeliverMessage,
    EndSession,
    JoinSession,
    JournalForked,
    Output,
    RoundTripMeasured,
    Send,
    Session,
    Timing,
)
from koala.daemon.storage.watermark import WatermarkVerdict

ALLOWLIST = Allowlist(epoch=5, sites={SiteName("delft"): None}, is_open=False)
FACTS = Facts(processors=4)
GRANTED = Report(claim=ClaimId("j1/1/0/1"), state=ReportState.GRANTED, nonce="n")


def registration(
    *,
    site: str = "delft",
    protocol: int = PROTOCOL,
    epoch_seen: int = 5,
    facts: Facts = FACTS,
) -> Register:
    return Register(
        protocol=protocol,
        version="1",
        site=SiteName(site),
        session="s",
        epoch_seen=epoch_seen,
        facts=facts,
        idle=4,
    )


def session() -> Session:
    return Session(ALLOWLIST, Timing(beat_s=2.0, silence_s=15.0), now=0.0)


def live() -> Session:
    machine = session()
    machine.receive(registration(), 0.0)
    machine.receive(InventoryEnd(), 0.0)
    machine.join([], 0.0)
    return machine


def kinds(outputs: list[Output]) -> list[str]:
    """Messages by their kind, other outputs by their class."""
    said: list[str] = []
    for output in outputs:
        if isinstance(output, Send):
            said += [TO_AGENT.classes[type(message)][0] for message in output.messages]
        else:
            said.append(type(output).__name__)
    return said


def rejection(outputs: list[Output]) -> tuple[str, bool]:
    send, end = outputs
    assert isinstance(send, Send)
    assert isinstance(end, EndSession)
    (message,) = send.messages
    assert isinstance(message, Reject)
    return message.reason, message.is_final


def test_the_inventory_is_kept_together_until_its_end() -> None:
    machine = session()
    assert machine.receive(registration(), 0.0) == []
    assert machine.receive(GRANTED, 0.0) == []
    (join,) = machine.receive(InventoryEnd(), 0.0)
    assert join == JoinSession(registration=registration(), inventory=[GRANTED])
    assert not machine.is_live


def test_what_comes_while_the_core_takes_the_inventory_is_heard_after_it() -> None:
    machine = session()
    machine.receive(registration(), 0.0)
    machine.receive(InventoryEnd(), 0.0)
    assert machine.receive(GRANTED, 0.1) == []
    outputs = machine.join([Stop(claim=ClaimId("j1/1/0/1"))], 0.2)
    assert kinds(outputs) == ["stop", "wanted_end", "beat", "DeliverMessage"]
    assert machine.is_live
    assert machine.receive(GRANTED, 0.3) == [DeliverMessage(GRANTED)]


def test_a_site_whose_two_ends_name_different_users_is_refused_for_good() -> None:
    """Nobody could use it, and neither side's word may be passed over in silence."""
    allowlist = Allowlist(epoch=5, sites={SiteName("delft"): UserName("ann")}, is_open=False)

    def told(**facts: Any) -> list[Output]:
        machine = Session(allowlist, Timing(beat_s=2.0, silence_s=15.0), now=0.0)
        return machine.receive(registration(facts=Facts(processors=4, **facts)), 0.0)

    belongs = "site delft belongs to ann by this daemon's configuration, and its agent takes only"
    expected = '(expected accounts.user = "ann" in the agent\'s configuration)'
    assert rejection(told(owner=UserName("bob"))) == (f"{belongs} those of bob {expected}", True)
    others = (UserName("bob"), UserName("cas"))
    assert rejection(told(users=others)) == (
        f"{belongs} those of its 2 users {expected}",
        True,
    )
    assert told(users=(UserName("ann"), *others)) == told(owner=UserName("ann")) == told() == []


def test_an_open_daemon_takes_any_site() -> None:
    allowlist = Allowlist(epoch=5, sites={}, is_open=True)
    machine = Session(allowlist, Timing(), now=0.0)
    assert machine.receive(registration(site="leiden"), 0.0) == []
    assert machine.site == "leiden"


def test_words_at_a_wrong_place_end_the_session() -> None:
    scripts: tuple[list[FromAgent], ...] = (
        [GRANTED],
        [InventoryEnd()],
        [registration(), registration()],
        [registration(), InventoryEnd(), InventoryEnd()],
    )
    for script in scripts:
        machine = session()
        for message in script[:-1]:
            machine.receive(message, 0.0)
        assert kinds(machine.receive(script[-1], 0.0)) == ["reject", "EndSession"]
        assert machine.receive(GRANTED, 0.0) == []
        assert machine.wake_at is None


def test_a_beat_goes_out_in_time_and_measures_the_round_trip() -> None:
    machine = live()
    assert machine.wake_at == 2.0
    assert kinds(machine.wake(2.0)) == ["beat"]
    assert machine.receive(Beat(number=2, sent_at=0.0), 2.25) == [RoundTripMeasured(0.25)]
    assert machine.receive(Beat(number=2, sent_at=0.0), 9.0) == []  # said twice, measured once
    assert machine.receive(Beat(number=77, sent_at=0.0), 9.0) == []


def test_beats_that_an_agent_never_echoes_are_forgotten() -> None:
    machine, now = live(), 0.0
    for _ in range(2 * BEATS_MAX):
        now += 2.0
        machine.receive(Beat(number=0, sent_at=0.0), now)  # it says something, and no echo
        assert kinds(machine.wake(now)) == ["beat"]
    assert machine.receive(Beat(number=1, sent_at=0.0), now) == []
    assert machine.receive(Beat(number=2 * BEATS_MAX, sent_at=0.0), now + 0.5) == [
        RoundTripMeasured(2.5)
    ]


def test_a_stream_that_never_registers_is_cut() -> None:
    machine = session()
    assert machine.wake_at == 15.0
    assert kinds(machine.wake(15.0)) == ["EndSession"]


def test_a_session_that_ended_is_not_joined_any_more() -> None:
    machine = session()
    machine.receive(registration(), 0.0)
    machine.receive(InventoryEnd(), 0.0)
    assert kinds(machine.close("the daemon stops")) == ["goodbye", "EndSession"]
    assert machine.join([Beat(number=1, sent_at=0.0)], 1.0) == []
    assert machine.close("again") == []


def answer(verdict: WatermarkVerdict, _site: SiteName, _mark: Watermark) -> WatermarkVerdict:
    return verdict


def test_an_agent_that_knows_more_than_the_journal_ends_more_than_its_session() -> None:
    mark = Watermark(epoch=5, seq=90, chain=b"c", seal=b"s")
    for verdict in WatermarkVerdict:
        allowlist = replace(ALLOWLIST, verdict=partial(answer, verdict))
        machine = Session(allowlist, Timing(beat_s=2.0, silence_s=15.0), now=0.0)
        outputs = machine.receive(replace(registration(), mark=mark), 0.0)
        if verdict is WatermarkVerdict.BEHIND:
            assert outputs[0] == JournalForked(site=SiteName("delft"), mark=mark)
            assert kinds(outputs[1:]) == ["reject", "EndSession"]
        else:
            assert outputs == []


def test_an_agent_is_heard_while_it_answers_beats() -> None:
    """The silence of a starter counts only then: reports of a stopped agent wait in its queues."""
    machine = session()
    assert not machine.is_heard(0.0)
    machine = live()
    machine.receive(Beat(number=1, sent_at=0.0), 10.0)
    assert machine.is_heard(14.0)
    assert not machine.is_heard(14.1)
    machine.receive(GRANTED, 14.2)
    assert machine.is_heard(15.0)
    machine.close("the daemon stops")
    assert not machine.is_heard(15.0)
