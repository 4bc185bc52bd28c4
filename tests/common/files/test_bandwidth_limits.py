"""The token bucket: never more than was allowed, never less than was possible."""

from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from koala.common.files.bandwidth_limits import (
    CHUNK_BYTES,
    BandwidthLimits,
    LinkLimits,
    chunk_bytes,
)
from koala.common.runtime.token_bucket import TokenBucket

ASKS = st.lists(st.tuples(st.floats(0, 10), st.integers(0, 100_000)), min_size=1, max_size=60)


def departures(
    bucket: TokenBucket, asks: list[tuple[float, int]], *, is_patient: bool
) -> list[tuple[float, int]]:
    """List when so many bytes went. A patient asker asks again only when its last bytes have
    gone."""
    now = 0.0
    gone = []
    for pause_s, size_bytes in asks:
        now += pause_s
        at = now + bucket.reserve(size_bytes, now)
        gone.append((at, size_bytes))
        if is_patient:
            now = at
    return gone


@given(ASKS, st.floats(1, 1e6), st.integers(0, 100_000), st.booleans())
def test_no_span_of_time_sees_more_than_burst_and_rate_allow(
    asks: list[tuple[float, int]], rate: float, burst: int, is_patient: bool
) -> None:
    bucket = TokenBucket(rate, burst=burst, now=0.0)
    gone = departures(bucket, asks, is_patient=is_patient)
    for first, (begin, _) in enumerate(gone):
        passed = 0
        for end, size_bytes in gone[first:]:
            passed += size_bytes
            largest = max(size for _, size in gone)
            assert passed <= burst + rate * (end - begin) * (1 + 1e-9) + largest + 1


@given(ASKS, st.floats(1, 1e6), st.integers(0, 100_000))
def test_nobody_overtakes(asks: list[tuple[float, int]], rate: float, burst: int) -> None:
    bucket = TokenBucket(rate, burst=burst, now=0.0)
    instants = [at for at, _ in departures(bucket, asks, is_patient=False)]
    for earlier, later in pairwise(instants):
        assert earlier <= later + 1e-6


def test_copies_with_one_site_share_its_rate_and_others_have_their_own() -> None:
    links = LinkLimits(
        BandwidthLimits(default=1_000_000, by_site={"delft": 1000.0, "leiden": 1000.0})
    )
    assert links.reserve("delft", 1024, 0.0) == 0.0
    assert links.reserve("delft", 1000, 0.0) == 1.0
    assert links.reserve("delft", 1000, 0.0) == 2.0
    assert links.reserve("leiden", 1024, 0.0) == 0.0
    assert links.reserve("utrecht", 100_000, 0.0) == 0.0


@given(st.floats(1, 1e12))
def test_messages_on_slow_links_are_small_but_never_tiny_or_huge(rate: float) -> None:
    assert 1024 <= chunk_bytes(rate) <= CHUNK_BYTES


# --- booked rates ---


def sent(links: LinkLimits, copies: dict[str, bool], *, until: float) -> dict[str, int]:
    """Bytes that each copy with the site `b` got through, all of them always with a kilobyte in
    hand; whether one is booked is said by the mapping."""
    next_at = dict.fromkeys(copies, 0.0)
    gone = dict.fromkeys(copies, 0)
    while (now := min(next_at.values())) <= until:
        copy = min(next_at, key=next_at.__getitem__)
        wait_s = links.reserve("b", 1000, now, transfer=copy)
        next_at[copy] = now + max(wait_s, 1e-6)
        gone[copy] += 1000
    return gone


def test_a_booked_copy_goes_at_its_rate_whatever_the_limit_leaves_open() -> None:
    for limit in (None, 100_000.0):
        links = LinkLimits(BandwidthLimits(default=limit))
        with links.booking("t1", "b", 20_000.0, 0.0):
            assert sent(links, {"t1": True}, until=10.0)["t1"] == pytest.approx(200_000, rel=0.03)


def test_others_share_what_is_not_booked() -> None:
    links = LinkLimits(BandwidthLimits(default=100_000.0))
    with links.booking("t1", "b", 70_000.0, 0.0), links.booking("t2", "b", 10_000.0, 0.0):
        gone = sent(links, {"t1": True, "t2": True, "t3": False, "t4": False}, until=20.0)
    assert gone["t1"] == pytest.approx(1_400_000, rel=0.05)
    assert gone["t2"] == pytest.approx(200_000, rel=0.05)
    assert gone["t3"] + gone["t4"] == pytest.approx(400_000, rel=0.05)


def test_what_was_booked_is_everybody_s_when_the_copy_is_over() -> None:
    links = LinkLimits(BandwidthLimits(default=100_000.0))
    with links.booking("t1", "b", 90_000.0, 0.0):
        assert sent(links, {"t2": False}, until=10.0)["t2"] == pytest.approx(100_000, rel=0.2)
    later = LinkLimits(BandwidthLimits(default=100_000.0))
    with later.booking("t1", "b", 90_000.0, 0.0):
        pass
    assert sent(later, {"t2": False}, until=10.0)["t2"] == pytest.approx(1_000_000, rel=0.03)


def test_the_owner_s_limit_holds_for_booked_copies_too() -> None:
    links = LinkLimits(BandwidthLimits(default=10_000.0))
    with links.booking("t1", "b", 70_000.0, 0.0):
        assert sent(links, {"t1": True}, until=10.0)["t1"] == pytest.approx(100_000, rel=0.05)


def test_messages_of_a_booked_copy_fit_its_rate() -> None:
    links = LinkLimits(BandwidthLimits())
    assert links.chunk_bytes("b") == CHUNK_BYTES
    assert links.chunk_bytes("b", 80_000.0) == 10_000
