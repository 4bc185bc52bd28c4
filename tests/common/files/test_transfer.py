"""Scripts for the machine of one copy: events and instants in, actions out."""

from dataclasses import replace
from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from koala.common.files.transfer import (
    Cancelled,
    Failed,
    Finished,
    Queued,
    Reading,
    Transfer,
    TransferLimits,
    Waiting,
)
from koala.common.files.transfer_events import (
    Action,
    Admitted,
    Arrived,
    AskPlace,
    Busy,
    CancelRequested,
    Check,
    Checked,
    Cut,
    Discard,
    Ended,
    Event,
    Fault,
    HangUp,
    Keep,
    Kept,
    Listening,
    Ordered,
    Read,
    Refused,
    SendReport,
    Ticked,
)
from koala.common.protocol.messages import (
    FetchOrder,
    TransferFailed,
    TransferFinished,
    TransferProgress,
)

LIMITS = TransferLimits(
    tries_max=3, stalled_s=30, progress_s=100, busy_s=1000, spoilt_max=2, pause_s=1, pause_s_max=8
)
ORDER = FetchOrder(
    transfer="j1/1/t1",
    file="input.dat",
    source="delft",
    address="delft:1",
    token="secret",
    size_bytes=100,
    checksum="good",
)
CUT = Cut(fault=Fault.NOBODY, reason="cut")


class TransferScript:
    """Tells a copy events at instants and compares what it wants."""

    def __init__(self, order: FetchOrder = ORDER) -> None:
        self.transfer = Transfer(order, target="leiden", limits=LIMITS, now=0.0)

    def tell(self, now: float, event: Event, *expected: Action) -> None:
        assert self.transfer.handle(event, now) == list(expected)

    def read(self, now: float, *, have_bytes: int = 0) -> None:
        """As far as the first try."""
        self.tell(now, Ordered(have_bytes=have_bytes), AskPlace())
        self.tell(now, Admitted(), Read(offset=have_bytes))

    def failure(self) -> TransferFailed:
        assert isinstance(self.transfer.state, Failed)
        return self.transfer.state.report


@pytest.fixture
def script() -> TransferScript:
    return TransferScript()


def test_a_copy_without_trouble_finishes_and_counts_from_its_order(script: TransferScript) -> None:
    script.tell(10, Ordered(), AskPlace())
    script.tell(15, Admitted(), Read(offset=0))
    script.tell(16, Arrived(size_bytes=60))
    script.tell(17, Listening())
    script.tell(18, Arrived(size_bytes=40))
    script.tell(18, Ended(checksum="good"), Check())
    script.tell(19, Checked(checksum="good"), Keep(took_s=9))
    report = TransferFinished(transfer="j1/1/t1", size_bytes=100, took_s=9)
    script.tell(20, Kept(), SendReport(report=report))
    assert script.transfer.state == Finished(report=report)
    assert script.transfer.is_over


def progress(script: TransferScript, now: float) -> tuple[int, float] | None:
    """A byte arrives; what is told of the copy then."""
    script.tell(now, Arrived(size_bytes=1))
    told = script.transfer.progress(now)
    assert told is None or told.transfer == "j1/1/t1"
    return None if told is None else (told.size_bytes, told.took_s)


def test_how_far_it_is_is_told_at_a_bounded_rate_that_falls_with_its_length() -> None:
    """A byte each tenth of a second, for an hour."""
    script = TransferScript(replace(ORDER, size_bytes=10**9, report_s=2.0))
    script.tell(5, Ordered(), AskPlace())
    script.tell(10, Admitted(), Read(offset=0))  # it had to wait for its place
    instants = [10 + n / 10 for n in range(1, 36_000)]
    told = [found for now in instants if (found := progress(script, now)) is not None]
    assert told[0] == (20, 2.0)
    pauses = [later[1] - earlier[1] for earlier, later in pairwise(told)]
    assert min(pauses) >= 2.0 - 1e-6
    assert max(pauses) <= 30.2
    assert len(told) < 180


def test_nothing_is_told_of_a_short_copy_nor_where_nobody_asked() -> None:
    for order in (replace(ORDER, report_s=2.0), ORDER):
        script = TransferScript(order)
        script.read(10)
        assert progress(script, 11.9) is None
        if not order.report_s:
            assert progress(script, 500.0) is None


def test_a_copy_of_an_earlier_life_is_told_with_the_time_that_it_took_in_all() -> None:
    script = TransferScript(replace(ORDER, report_s=2.0))
    script.tell(10, Ordered(have_bytes=60, spent_s=5), AskPlace())
    script.tell(20, Admitted(), Read(offset=60))
    assert progress(script, 21.9) is None
    assert script.transfer.progress(22.0) == TransferProgress(
        transfer="j1/1/t1", size_bytes=61, took_s=7.0
    )


def test_a_copy_of_an_earlier_life_goes_on_and_counts_the_time_it_took(
    script: TransferScript,
) -> None:
    script.tell(10, Ordered(have_bytes=60, spent_s=5), AskPlace())
    script.tell(10, Admitted(), Read(offset=60))
    script.tell(11, Arrived(size_bytes=40))
    script.tell(11, Ended(checksum="good"), Check())
    script.tell(12, Checked(checksum="good"), Keep(took_s=7))


def test_more_bytes_than_ordered_from_an_earlier_life_are_thrown_away(
    script: TransferScript,
) -> None:
    script.tell(0, Ordered(have_bytes=101), Discard(), AskPlace())
    script.tell(0, Admitted(), Read(offset=0))


def test_after_a_cut_the_next_try_reads_on_where_the_bytes_ended(script: TransferScript) -> None:
    script.read(0)
    script.tell(1, Arrived(size_bytes=60))
    script.tell(2, CUT)
    assert script.transfer.state == Waiting(retry_at=3)
    script.tell(2.5, Ticked())
    script.tell(3, Ticked(), AskPlace())
    script.tell(3, Admitted(), Read(offset=60))


def test_pauses_double_up_to_their_limit_and_begin_again_after_progress(
    script: TransferScript,
) -> None:
    script.transfer = Transfer(ORDER, target="leiden", limits=replace(LIMITS, tries_max=9), now=0.0)
    script.read(0)
    pauses = []
    now = 0.0
    for _ in range(6):
        script.tell(now, CUT)
        assert isinstance(script.transfer.state, Waiting)
        pauses.append(script.transfer.state.retry_at - now)
        now = script.transfer.state.retry_at
        script.tell(now, Ticked(), AskPlace())
        script.tell(now, Admitted(), Read(offset=0))
    assert pauses == [1, 2, 4, 8, 8, 8]
    script.tell(now, Arrived(size_bytes=1))
    script.tell(now, CUT)
    assert script.transfer.state == Waiting(retry_at=now + 1)


def test_tries_in_a_row_without_a_byte_are_limited_and_the_reason_says_the_last(
    script: TransferScript,
) -> None:
    script.read(0)
    for now in (1, 10):
        script.tell(now, Cut(fault=Fault.SOURCE, reason="no answer"))
        script.tell(now + 5, Ticked(), AskPlace())
        script.tell(now + 5, Admitted(), Read(offset=0))
    report = TransferFailed(
        transfer="j1/1/t1",
        reason="copy of 'input.dat' from delft: 3 tries without a byte; the last: no answer",
        at="delft",
    )
    script.tell(
        20, Cut(fault=Fault.SOURCE, reason="no answer"), Discard(), SendReport(report=report)
    )
    assert script.failure() == report


def test_a_source_that_falls_silent_is_hung_up_on(script: TransferScript) -> None:
    script.read(0)
    assert script.transfer.wake_at == 30
    script.tell(29, Ticked())
    script.tell(30, Ticked(), HangUp())
    assert script.transfer.state == Waiting(retry_at=31)
    script.tell(30, CUT)  # the echo of our own hanging up
    assert script.transfer.state == Waiting(retry_at=31)


def test_holding_back_for_the_rate_is_not_the_sources_silence(script: TransferScript) -> None:
    script.read(0)
    script.tell(1, Arrived(size_bytes=10))
    assert script.transfer.wake_at is None
    script.tell(90, Ticked())
    script.tell(90, Listening())
    assert script.transfer.wake_at == 120


def test_no_byte_for_too_long_ends_it_even_with_tries_left(script: TransferScript) -> None:
    script.read(0)
    script.tell(101, CUT, Discard(), SendReport(report=script_report(script, 101)))
    assert "no byte for 101 s" in script.failure().reason


def test_waiting_for_a_place_of_our_own_is_not_the_sources_silence(script: TransferScript) -> None:
    script.tell(0, Ordered(), AskPlace())
    script.tell(5000, Admitted(), Read(offset=0))
    script.tell(5001, CUT)
    assert isinstance(script.transfer.state, Waiting)


def script_report(script: TransferScript, silent_s: int) -> TransferFailed:
    return TransferFailed(
        transfer=script.transfer.order.transfer,
        reason=f"copy of 'input.dat' from delft: no byte for {silent_s} s: cut",
        at="",
    )


def test_a_busy_source_is_asked_again_without_using_up_tries(script: TransferScript) -> None:
    script.read(0)
    now = 0.0
    for _ in range(20):
        script.tell(now, Busy(reason="8 others are reading"))
        now += 9
        script.tell(now, Ticked(), AskPlace())
        script.tell(now, Admitted(), Read(offset=0))
    script.tell(now, CUT)
    assert isinstance(script.transfer.state, Waiting)


def test_a_source_that_is_busy_for_ever_is_given_up(script: TransferScript) -> None:
    script.read(0)
    script.tell(0, Busy(reason="full"))
    script.tell(999, Ticked(), AskPlace())
    script.tell(999, Admitted(), Read(offset=0))
    actions = script.transfer.handle(Busy(reason="full"), 1000)
    assert actions[0] == Discard()
    assert script.failure().at == "delft"


def test_a_refusal_is_final(script: TransferScript) -> None:
    script.read(0)
    actions = script.transfer.handle(Refused(fault=Fault.SOURCE, reason="no such file"), 1)
    assert actions == [Discard(), SendReport(report=script.failure())]
    assert script.failure().at == "delft"


def test_a_spoilt_copy_is_thrown_away_and_read_again_a_few_times(script: TransferScript) -> None:
    script.read(0, have_bytes=100)
    script.tell(1, Ended(checksum="good"), Check())
    script.tell(2, Checked(checksum="bad"), Discard())
    script.tell(3, Ticked(), AskPlace())
    script.tell(3, Admitted(), Read(offset=0))
    script.tell(4, Arrived(size_bytes=100))
    script.tell(4, Ended(checksum="good"), Check())
    actions = script.transfer.handle(Checked(checksum="bad"), 5)
    assert actions == [Discard(), SendReport(report=script.failure())]
    assert script.failure().at == ""
    assert "2 spoilt copies" in script.failure().reason


def test_a_whole_file_other_than_the_catalogues_is_the_sources_fault(
    script: TransferScript,
) -> None:
    script.read(0, have_bytes=100)
    script.tell(1, Ended(checksum="other"), Check())
    script.transfer.handle(Checked(checksum="other"), 2)
    assert script.failure().at == "delft"
    assert "the catalogue's good" in script.failure().reason


@pytest.mark.parametrize("order", [replace(ORDER, offset=5), replace(ORDER, checksum="")])
def test_a_part_or_an_unknown_file_needs_only_the_sources_own_checksum(order: FetchOrder) -> None:
    script = TransferScript(order)
    script.read(0, have_bytes=100)
    script.tell(1, Ended(checksum="other"), Check())
    script.tell(2, Checked(checksum="other"), Keep(took_s=2))


def test_more_bytes_than_ordered_from_the_source_are_its_fault(script: TransferScript) -> None:
    script.read(0)
    actions = script.transfer.handle(Arrived(size_bytes=101), 1)
    assert actions == [HangUp(), Discard(), SendReport(report=script.failure())]
    assert script.failure().at == "delft"


def test_a_stream_that_ends_early_counts_as_a_cut(script: TransferScript) -> None:
    script.read(0)
    script.tell(1, Arrived(size_bytes=99))
    script.tell(2, Ended(checksum="good"))
    assert script.transfer.state == Waiting(retry_at=3)


def test_an_error_of_the_own_disk_while_checking_is_tried_again(script: TransferScript) -> None:
    script.read(0, have_bytes=100)
    script.tell(1, Ended(checksum="good"), Check())
    script.tell(2, Cut(fault=Fault.TARGET, reason="disk full"))
    assert isinstance(script.transfer.state, Waiting)


def test_cancelled_while_reading_it_hangs_up_and_deletes(script: TransferScript) -> None:
    script.read(0)
    script.tell(1, CancelRequested(), HangUp(), Discard())
    assert script.transfer.state == Cancelled()
    for event in (Arrived(size_bytes=1), Ended(checksum=""), CUT, Ticked(), CancelRequested()):
        script.tell(2, event)


def test_a_finished_copy_that_is_cancelled_is_deleted(script: TransferScript) -> None:
    script.read(0, have_bytes=100)
    script.transfer.handle(Ended(checksum="good"), 1)
    script.transfer.handle(Checked(checksum="good"), 1)
    script.transfer.handle(Kept(), 1)
    script.tell(2, CancelRequested(), Discard())


def test_ordered_again_it_reads_from_the_new_address_and_keeps_its_bytes(
    script: TransferScript,
) -> None:
    script.read(0)
    script.tell(1, Arrived(size_bytes=60))
    script.transfer.redirect(replace(ORDER, address="relay:2", token="other"))
    script.tell(2, CUT)
    script.tell(3, Ticked(), AskPlace())
    script.tell(3, Admitted(), Read(offset=60))
    assert script.transfer.order.address == "relay:2"


EVENTS = st.one_of(
    st.sampled_from(
        [Admitted(), Listening(), Ended(checksum="good"), Ended(checksum="x"), CUT, Kept()]
    ),
    st.sampled_from([Busy(reason="b"), Checked(checksum="good"), Checked(checksum="x"), Ticked()]),
    st.sampled_from([Refused(fault=Fault.SOURCE, reason="r"), CancelRequested()]),
    st.builds(Arrived, size_bytes=st.integers(0, 60)),
)


@given(st.lists(st.tuples(EVENTS, st.floats(0, 50)), max_size=60), st.integers(0, 120))
def test_whatever_comes_a_copy_is_told_finished_only_when_whole_and_checked_and_ends_once(
    events: list[tuple[Event, float]], have_bytes: int
) -> None:
    transfer = Transfer(ORDER, target="leiden", limits=LIMITS, now=0.0)
    actions = transfer.handle(Ordered(have_bytes=have_bytes), 0.0)
    now, told, checked = 0.0, 0, ""
    for event, pause_s in events:
        now += pause_s
        was_over = transfer.is_over
        if isinstance(event, Checked):
            checked = event.checksum
        actions = transfer.handle(event, now)
        told += sum(isinstance(action, SendReport) for action in actions)
        if was_over:
            assert actions in ([], [Discard()])
        if isinstance(transfer.state, Finished):
            assert checked == "good"
            assert transfer.offset == 100
        assert transfer.offset <= 160
    assert told <= 1


@given(st.data())
def test_with_a_source_that_only_fails_every_copy_ends_within_a_bound(data: st.DataObject) -> None:
    """No run of faults, however drawn, keeps a copy alive for ever."""
    transfer = Transfer(ORDER, target="leiden", limits=LIMITS, now=0.0)
    transfer.handle(Ordered(), 0.0)
    now = 0.0
    for _ in range(2000):
        if transfer.is_over:
            break
        match transfer.state:
            case Queued():
                transfer.handle(Admitted(), now)
            case Reading():
                bad: list[Event] = [
                    CUT,
                    Busy(reason="b"),
                    Arrived(size_bytes=1),
                    Ticked(),
                    Ended(checksum="x"),
                ]
                event = data.draw(st.sampled_from(bad))
                now += 30.0
                transfer.handle(event, now)
            case Waiting(retry_at=retry_at):
                now = retry_at
                transfer.handle(Ticked(), now)
            case _:
                transfer.handle(Checked(checksum="spoilt"), now)
    assert transfer.is_over
