"""Pauses between submissions that a batch system does not take."""

from __future__ import annotations

from dataclasses import replace

import pytest

from koala.common.protocol.messages import Resources
from koala.errors import LocalManagerError
from koala_agent.lrm.batch.limits.submission_pauses import LONGEST_S, TRY_S, SubmissionPauses
from koala_agent.lrm.local_manager import (
    PausedError,
    Placeholder,
    RequestRefusedError,
    UnclearRefusalError,
)

FULL = LocalManagerError("sbatch: no room", transient=True)


class Clock:
    def __init__(self) -> None:
        self.now = 0.0

    def __call__(self) -> float:
        return self.now


def is_paused(pauses: SubmissionPauses, claim: Placeholder) -> bool:
    try:
        pauses.check(claim)
    except LocalManagerError:
        return True
    return False


def test_one_claim_tries_for_all_after_ever_longer_pauses(placeholder: Placeholder) -> None:
    clock = Clock()
    pauses = SubmissionPauses(clock, clock)
    other = replace(placeholder, claim="j2/1/0/1", processors=1)
    tries = 0
    while clock.now < 3600.0:
        if not is_paused(pauses, placeholder):
            tries += 1
            assert is_paused(pauses, other) is (tries > 1), "another is tried, after the first"
            pauses.note_failure(placeholder, FULL)
        clock.now += 1.0
    assert tries <= 9 + 3600.0 / LONGEST_S
    assert pauses.summary == "it refuses claims: sbatch: no room"
    with pytest.raises(PausedError, match=r"no room; not asked again for") as caught:
        pauses.check(other)
    assert 0 < caught.value.again_s <= LONGEST_S
    clock.now += LONGEST_S
    pauses.check(placeholder)
    assert is_paused(pauses, other)
    clock.now += TRY_S  # it died
    pauses.check(other)
    pauses.note_success(other)
    assert (pauses.summary, is_paused(pauses, placeholder)) == ("", False)


@pytest.mark.parametrize(
    ("error", "paused"),
    [
        (FULL, {"alike", "larger", "queue"}),
        (UnclearRefusalError("a filter says no"), {"alike", "larger"}),
        (RequestRefusedError("more processors than allowed"), {"alike"}),
        (LocalManagerError("invalid account"), set()),
    ],
)
def test_what_a_failure_says_of_other_claims(
    placeholder: Placeholder, error: LocalManagerError, paused: set[str]
) -> None:
    pauses = SubmissionPauses(Clock(), Clock())
    pauses.note_failure(placeholder, error)
    others = {
        "alike": replace(placeholder, claim="j2/1/0/1"),
        "larger": replace(placeholder, processors=placeholder.processors + 1),
        "queue": replace(placeholder, resources=Resources(queue="other")),
        "account": replace(placeholder, account="bob"),
    }
    assert {name for name, one in others.items() if is_paused(pauses, one)} == paused


def test_a_booking_is_asked_for_the_less_often_the_later_it_begins_and_delays_none_in_the_queue(
    placeholder: Placeholder,
) -> None:
    clock, asked, booking = Clock(), list[float](), placeholder
    pauses = SubmissionPauses(clock, clock)
    while len(asked) < 8:
        booking = replace(placeholder, begins_at=clock.now + 60 * 2 ** len(asked))
        try:
            pauses.check(booking)
        except PausedError as error:
            clock.now += error.again_s
        else:
            asked.append(clock.now)
            pauses.note_failure(booking, RequestRefusedError("all is booked"))
    assert asked == [0, 1, 3, 7, 15, 31, 63, 127]
    clock.now += 128
    pauses.check(booking)
    pauses.note_failure(booking, RequestRefusedError("all is booked"))
    assert not is_paused(pauses, placeholder)
    assert not is_paused(pauses, replace(booking, processors=1))
    assert pauses.summary == ""
