"""Scripts for the machine of one copy: what its driver tells it, and its state then."""

from dataclasses import replace
from itertools import pairwise
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from koala.common.files.retries import RetryLimits
from koala.common.files.transfer import (
    Cancelled,
    Checking,
    Ended,
    Fault,
    Keeping,
    Reading,
    State,
    Transfer,
    Waiting,
)
from koala.common.protocol.messages import (
    FetchOrder,
    TransferFailed,
    TransferFinished,
    TransferProgress,
)

LIMITS = RetryLimits(tries_max=3, progress_s=100, busy_s=1000, pause_s=1, pause_s_max=8)
ORDER = FetchOrder(
    transfer="j1/1/t1",
    file="input.dat",
    source="delft",
    address="delft:1",
    token="secret",
    size_bytes=100,
    checksum="good",
)


def begun(
    now: float = 0.0,
    *,
    order: FetchOrder = ORDER,
    limits: RetryLimits = LIMITS,
    have_bytes: int = 0,
    spent_s: float = 0.0,
) -> Transfer:
    """As far as the first try."""
    transfer = Transfer(order, target="leiden", limits=limits, now=0.0)
    transfer.begin(now, have_bytes=have_bytes, spent_s=spent_s)
    transfer.admit(now)
    return transfer


def state_of(transfer: Transfer) -> State:
    """Return its state, of which the type checker remembers nothing."""
    return transfer.state


def try_again(transfer: Transfer) -> float:
    """Begin the next try as soon as its pause is over; return when."""
    assert isinstance(transfer.state, Waiting)
    now = transfer.state.retry_at
    transfer.retry(now)
    transfer.admit(now)
    assert state_of(transfer) == Reading()
    return now


def cut(transfer: Transfer, now: float) -> None:
    transfer.cut(Fault.NOBODY, "cut", now)


def failure(transfer: Transfer) -> TransferFailed:
    assert isinstance(transfer.state, Ended)
    assert isinstance(transfer.state.report, TransferFailed)
    return transfer.state.report


def progress(transfer: Transfer, now: float) -> tuple[int, float] | None:
    """A byte arrives; what is told of the copy then."""
    transfer.arrive(1, now)
    told = transfer.progress(now)
    assert told is None or told.transfer == "j1/1/t1"
    return None if told is None else (told.size_bytes, told.took_s)


def test_how_far_it_is_is_told_at_a_bounded_rate_that_falls_with_its_length() -> None:
    """A byte each tenth of a second, for an hour."""
    order = replace(ORDER, size_bytes=10**9, report_s=2.0)
    transfer = Transfer(order, target="leiden", limits=LIMITS, now=0.0)
    transfer.begin(5)
    transfer.admit(10)  # it had to wait for its place
    instants = [10 + n / 10 for n in range(1, 36_000)]
    told = [found for now in instants if (found := progress(transfer, now)) is not None]
    assert told[0] == (20, 2.0)
    pauses = [later[1] - earlier[1] for earlier, later in pairwise(told)]
    assert min(pauses) >= 2.0 - 1e-6
    assert max(pauses) <= 30.2
    assert len(told) < 180


def test_nothing_is_told_of_a_short_copy_nor_where_nobody_asked() -> None:
    for order in (replace(ORDER, report_s=2.0), ORDER):
        transfer = begun(10, order=order)
        assert progress(transfer, 11.9) is None
        if not order.report_s:
            assert progress(transfer, 500.0) is None


def test_a_copy_of_an_earlier_life_goes_on_and_counts_the_time_it_took() -> None:
    transfer = begun(10, order=replace(ORDER, report_s=2.0), have_bytes=60, spent_s=5)
    assert transfer.offset == 60
    assert progress(transfer, 11.9) is None
    assert transfer.progress(12.0) == TransferProgress(
        transfer="j1/1/t1", size_bytes=61, took_s=7.0
    )
    transfer.arrive(39, 13)
    transfer.end("good", 13)
    transfer.compare("good", 14)
    assert transfer.state == Keeping(took_s=9)


def test_pauses_double_up_to_their_limit_and_begin_again_after_progress() -> None:
    transfer = begun(limits=replace(LIMITS, tries_max=9))
    now, pauses = 0.0, []
    for _ in range(6):
        cut(transfer, now)
        before, now = now, try_again(transfer)
        pauses.append(now - before)
    assert pauses == [1, 2, 4, 8, 8, 8]
    transfer.arrive(1, now)
    cut(transfer, now)
    assert transfer.state == Waiting(retry_at=now + 1)


def test_tries_in_a_row_without_a_byte_are_limited_and_the_reason_says_the_last() -> None:
    transfer, now = begun(), 0.0
    for _ in range(2):
        transfer.cut(Fault.SOURCE, "no answer", now)
        now = try_again(transfer)
    transfer.cut(Fault.SOURCE, "no answer", now)
    assert failure(transfer) == TransferFailed(
        transfer="j1/1/t1",
        reason="copy of 'input.dat' from delft: 3 tries without a byte; the last: no answer",
        at="delft",
    )


def test_no_byte_for_too_long_ends_it_even_with_tries_left() -> None:
    transfer = begun()
    cut(transfer, 101)
    assert "no byte for 101 s" in failure(transfer).reason
    assert failure(transfer).at == ""


def test_waiting_for_a_place_of_our_own_is_not_the_sources_silence() -> None:
    transfer = Transfer(ORDER, target="leiden", limits=LIMITS, now=0.0)
    transfer.begin(0)
    transfer.admit(5000)
    cut(transfer, 5001)
    assert isinstance(transfer.state, Waiting)


def test_a_busy_source_is_asked_again_without_using_up_tries_but_not_for_ever() -> None:
    transfer, now = begun(), 0.0
    for _ in range(20):
        transfer.busy("8 others are reading", now)
        now = try_again(transfer)
    cut(transfer, now)
    try_again(transfer)
    transfer.busy("full", 1000)
    assert failure(transfer).at == "delft"


def test_a_refusal_is_final() -> None:
    transfer = begun()
    transfer.refuse(Fault.SOURCE, "no such file")
    assert failure(transfer).at == "delft"


def test_a_whole_file_other_than_the_catalogues_is_the_sources_fault() -> None:
    transfer = begun(have_bytes=100)
    transfer.end("other", 1)
    transfer.compare("other", 2)
    assert failure(transfer).at == "delft"
    assert "the catalogue's good" in failure(transfer).reason


@pytest.mark.parametrize("order", [replace(ORDER, offset=5), replace(ORDER, checksum="")])
def test_a_part_or_an_unknown_file_needs_only_the_sources_own_checksum(order: FetchOrder) -> None:
    transfer = begun(order=order, have_bytes=100)
    transfer.end("other", 1)
    transfer.compare("other", 2)
    assert transfer.state == Keeping(took_s=2)


def test_more_bytes_than_ordered_from_the_source_are_its_fault() -> None:
    transfer = begun()
    transfer.arrive(101, 1)
    assert failure(transfer).at == "delft"


def test_an_error_of_the_own_disk_while_checking_is_tried_again() -> None:
    transfer = begun(have_bytes=100)
    transfer.end("good", 1)
    transfer.cut(Fault.TARGET, "disk full", 2)
    assert isinstance(transfer.state, Waiting)


BYTES = st.integers(0, 60)
TOLD = st.one_of(
    st.tuples(st.sampled_from(["admit", "retry", "cut", "busy", "finish", "refuse", "cancel"])),
    st.tuples(st.sampled_from(["end", "compare"]), st.sampled_from(["good", "x"])),
    st.tuples(st.just("arrive"), BYTES),
)


def tell(transfer: Transfer, now: float, kind: str, value: Any = "") -> None:
    """Tell what a driver may, at whatever time."""
    match kind:
        case "admit" | "retry":
            getattr(transfer, kind)(now)
        case "finish" | "cancel":
            getattr(transfer, kind)()
        case "cut":
            cut(transfer, now)
        case "busy":
            transfer.busy("b", now)
        case "refuse":
            transfer.refuse(Fault.SOURCE, "r")
        case _:
            getattr(transfer, kind)(value, now)


@given(st.lists(st.tuples(TOLD, st.floats(0, 50)), max_size=60), st.integers(0, 120))
def test_whatever_comes_a_copy_is_told_finished_only_when_whole_and_checked_and_ends_once(
    told: list[tuple[tuple[str, ...], float]], have_bytes: int
) -> None:
    transfer = Transfer(ORDER, target="leiden", limits=LIMITS, now=0.0)
    transfer.begin(0.0, have_bytes=have_bytes)
    now, checked = 0.0, ""
    for (kind, *value), pause_s in told:
        now += pause_s
        before = transfer.state
        tell(transfer, now, kind, *value)
        if kind == "compare" and isinstance(before, Checking):
            checked = value[0]
        if isinstance(before, Ended | Cancelled) and kind != "cancel":
            assert transfer.state == before
        report = transfer.state.report if isinstance(transfer.state, Ended) else None
        if isinstance(report, TransferFinished):
            assert checked == "good"
            assert transfer.offset == 100
        assert transfer.offset <= 160


@given(st.data())
def test_with_a_source_that_only_fails_every_copy_ends_within_a_bound(data: st.DataObject) -> None:
    """No run of faults, however drawn, keeps a copy alive for ever."""
    transfer, now = begun(), 0.0
    for _ in range(2000):
        match transfer.state:
            case Ended():
                break
            case Reading():
                now += 30.0
                bad: list[tuple[Any, ...]] = [("cut",), ("busy",), ("arrive", 1), ("end", "x")]
                tell(transfer, now, *data.draw(st.sampled_from(bad)))
            case Waiting():
                now = try_again(transfer)
            case _:
                transfer.compare("spoilt", now)
    assert transfer.is_over
