"""A job starts once all its files and claims are there; its JST is only the latest instant."""

from __future__ import annotations

from typing import Any

import pytest

from koala.core.model.actions import (
    ArmClaim,
    CancelTransfer,
    ClaimProcessors,
    ReleaseClaim,
    StartTransfer,
    StopClaim,
)
from koala.core.model.events import TransferFinished, TransferProgressed
from koala.core.model.job import EndKind
from koala.core.model.job_spec import Deadline
from koala.core.model.replicas import CHECKED_BPS
from koala.core.model.values import JobId, TransferId
from koala.views.documents import whole_document
from koala.views.explain import why
from tests.core.conftest import Begin
from tests.harness.builders import a_job, a_site
from tests.harness.script import Script

SIZE_BYTES = 1_000_000
"""A hundred seconds by the default of the scripts here, and no time to check."""
CHECK_S = SIZE_BYTES / CHECKED_BPS


def far(begin: Begin, **more: Any) -> Script:
    """A file at home; a and b have the processors, and FTT is 100 s."""
    script = begin(bandwidth_default_bps=10_000.0, **more).ignore(StartTransfer, CancelTransfer)
    script.tell(a_site("home", 1), a_site("a", 4), a_site("b", 4))
    return script.replica("data", "home", SIZE_BYTES)


def told(script: Script, size_bytes: int, took_s: float, name: str = "j1/1/t1") -> Script:
    """A copy is so far."""
    return script.tell(
        TransferProgressed(transfer=TransferId(name), size_bytes=size_bytes, took_s=took_s)
    )


def here(script: Script, took_s: float, name: str = "j1/1/t1") -> Script:
    """A copy is whole."""
    return script.fetched(name, size_bytes=SIZE_BYTES, took_s=took_s)


def start_at(script: Script, name: str = "j1") -> float:
    """The JST."""
    attempt = script.job(name).attempt
    assert attempt is not None
    return attempt.start_at


def shown(script: Script, name: str = "j1") -> dict[str, Any]:
    """Return what users see of the job now."""
    return whole_document(script.scheduler, JobId(name), script.now).document


def test_a_file_that_comes_early_lets_the_job_be_claimed_and_started_at_once(
    begin: Begin,
) -> None:
    script = far(begin).tell(a_job("j1", 4, file="data"))
    assert start_at(script) == 100
    here(script.at(3), took_s=2.9)
    script.expect(ClaimProcessors, claim="j1/1/0/1", at=3)
    script.at(3.5).grant("j1/1/0/1")
    assert start_at(script) == 3.5
    assert script.expect(ArmClaim, at=3.5).release_at == 3.55
    timeline = shown(script)["timeline"]
    assert timeline["start_delay_s"] == pytest.approx(-96.5)


def test_claims_are_made_in_time_for_a_copy_that_is_faster_than_thought(begin: Begin) -> None:
    """Ten times as fast: three quarters of the way are over at 7.5, not at 75."""
    script = far(begin).tell(a_job("j1", 4, file="data"))
    told(script.at(1), 100_000, 1.0)
    script.at(7.5 + CHECK_S).grant(*script.claimed("j1"))
    assert script.job("j1").attempt is not None
    script.at(9.9).expect_nothing()
    here(script.at(10), took_s=10.0)
    assert script.expect(ArmClaim, at=10).release_at == 10.05
    assert start_at(script) == 10


def test_a_job_with_a_deadline_does_not_start_before_it(begin: Begin) -> None:
    script = far(begin).tell(a_job("j1", 4, file="data", deadline=Deadline(after_s=500.0)))
    told(script.at(1), 500_000, 1.0)
    here(script.at(2), took_s=2.0).expect_nothing().at(499)
    script.grant(*script.claimed("j1"))
    assert start_at(script) == 500
    script.at(499.9).expect_nothing().at(499.95)
    assert script.expect(ArmClaim).release_at == 500


def test_nothing_is_armed_before_every_file_and_every_claim_is_there(begin: Begin) -> None:
    script = far(begin).tell(a_job("j1", 4, 4, file="data"))
    here(script.at(1), took_s=1.0).expect_nothing()  # the other one travels
    here(script.at(5), took_s=5.0, name="j1/1/t2")
    first, second = script.claimed("j1")
    script.grant(first).at(8).expect_nothing()
    script.grant(second)
    assert {arm.release_at for arm in script.take(ArmClaim)} == {8.05}


def test_a_link_that_nobody_observed_does_not_hold_up_the_claims(begin: Begin) -> None:
    """From home to b nothing is known: 100 s by the default, and 5 s by its first report."""
    script = far(begin).tell(a_job("j0", 4, 4, file="data")).drop()
    here(script.at(1), took_s=1.0, name="j0/1/t1")
    script.cancel("j0").drop()
    script.tell(a_job("j1", 4, 4, file="data")).drop()
    first, second = sorted(t for t in script.scheduler.files.transfers if t.startswith("j1"))
    here(script.at(2), took_s=1.0, name=first)
    told(script.at(2.1), 220_000, 1.1, name=second).expect_nothing()
    script.at(1 + 0.75 * (5 + CHECK_S) + 0.01)
    assert len(script.claimed("j1")) == 2
    script.drop()


def test_a_copy_that_is_begun_again_goes_on_at_the_rate_that_was_known(begin: Begin) -> None:
    script = far(begin).tell(a_job("j1", 4, file="data"))
    told(script.at(4), 400_000, 4.0)
    told(script.at(5), 100_000, 5.0)  # the first bytes were spoilt
    (copy,) = shown(script)["transfers"]
    assert copy["rate_bps"] == 100_000
    assert copy["left_s"] == pytest.approx(9 + CHECK_S)


def test_what_is_told_of_copies_that_are_over_or_were_never_there_changes_nothing(
    begin: Begin,
) -> None:
    script = far(begin).tell(a_job("j1", 4, file="data"))
    here(script.at(3), took_s=2.9).claimed("j1")
    script.unchanged_by(
        *(
            TransferProgressed(transfer=TransferId(name), size_bytes=9, took_s=9.0)
            for name in ("j1/1/t1", "j1/2/t1", "j9/1/t1", "")
        )
    )


def test_refused_when_the_file_is_there_a_component_is_tried_again_up_to_the_jst(
    begin: Begin,
) -> None:
    """The copy is not thrown away for one refusal: the JST stays the last try."""
    script = far(begin).tell(a_job("j1", 4, file="data"))
    here(script.at(3), took_s=2.9).refuse(*script.claimed("j1"))
    assert script.phase("j1") == "Claiming"
    again = script.at(3 + 0.75 * 97).expect(ClaimProcessors)
    script.grant(again.claim)
    script.expect(ArmClaim, at=3 + 0.75 * 97)


def test_a_claim_that_comes_early_has_its_last_try_while_it_may_hold(begin: Begin) -> None:
    """FTT 100 s, held for 20 s at most: claimed at 3, the last try is no later than 19."""
    script = far(begin).tell(a_job("j1", 4, 4, file="data", max_hold_s=20.0))
    here(script.at(1), took_s=1.0)
    here(script.at(3), took_s=3.0, name="j1/1/t2")
    first, second = script.claimed("j1")
    script.grant(first).refuse(second)
    assert start_at(script) == 3 + 20 - 4
    tries = []
    while script.phase("j1") == "Claiming" and script.now < 30:
        script.after(0.5)
        for asked in script.take(ClaimProcessors):
            tries.append(script.now)
            script.refuse(asked.claim)
        script.ignore(StopClaim)
    assert tries, "the other one was tried again"
    assert script.now <= 20
    assert "not claimed by its start time" in script.story("j1")
    script.gone("j1/1/0/1").drop()


def test_after_a_hold_that_ran_out_a_job_is_not_claimed_early_for_what_is_heard(
    begin: Begin,
) -> None:
    """The copy came fast and then stopped: claimed for nothing once, not each time."""
    script = far(begin).tell(a_job("j1", 4, file="data", max_hold_s=20.0))
    told(script.at(2), 900_000, 2.0)
    script.grant(*script.claimed("j1"))
    script.at(22).gone("j1/1/0/1", EndKind.HOLD).report("a", 4)
    script.at(30)
    assert script.job("j1").attempts == 2
    attempt = script.job("j1").attempt
    assert attempt is not None
    (name,) = script.scheduler.files.transfers
    told(script.at(32), 900_000, 2.0, name=name).after(1.0).expect_nothing()
    here(script.at(34), took_s=4.0, name=name)
    script.expect(ClaimProcessors, at=34)


def test_a_released_job_moves_no_more(begin: Begin) -> None:
    script = far(begin).tell(a_job("j1", 4, file="data"))
    here(script.at(3), took_s=2.9).started("j1")
    before = start_at(script)
    script.after(1.0).tell(
        TransferFinished(transfer=TransferId("j1/1/t1"), size_bytes=1, took_s=1.0)
    ).expect_nothing()
    assert start_at(script) == before
    assert script.phase("j1") == "Releasing"


# --- what people are told ---


def test_show_has_each_copy_with_bytes_share_rate_and_time_left(begin: Begin) -> None:
    script = far(begin).tell(a_job("j1", 4, file="data"))
    (copy,) = shown(script)["transfers"]
    assert copy == {
        "transfer": "j1/1/t1", "file": "data", "source": "home", "target": "a",
        "components": ["0"], "size_bytes": SIZE_BYTES, "moved_bytes": 0, "share": 0.0,
        "rate_bps": None, "left_s": 100.0, "started_at": 0.0, "told_at": None, "is_done": False,
    }  # fmt: skip
    told(script.at(2), 200_000, 2.0).at(3)
    (copy,) = shown(script)["transfers"]
    assert (copy["moved_bytes"], copy["share"], copy["rate_bps"]) == (200_000, 0.2, 100_000)
    assert copy["left_s"] == pytest.approx(7 + CHECK_S)
    assert copy["told_at"] == 2
    (_, line) = why(script.scheduler, JobId("j1"), script.now)[-2:]
    assert "200.0 kB of 1.0 MB (20%), 100.0 kB/s, about 7 s left, told 1 s ago" in line
    script.at(9).drop()
    here(script.at(10), took_s=10.0).drop()
    (copy,) = shown(script)["transfers"]
    assert (copy["moved_bytes"], copy["share"], copy["left_s"]) == (SIZE_BYTES, 1.0, 0.0)
    assert copy["is_done"]


def test_show_counts_what_is_held_and_what_runs_now(begin: Begin) -> None:
    script = far(begin).tell(a_job("j1", 4, 4, file="data")).ignore(ReleaseClaim)
    here(script.at(1), took_s=1.0)
    here(script.at(2), took_s=2.0, name="j1/1/t2")
    first, second = script.claimed("j1")
    script.grant(first).at(12)
    picture = shown(script)
    assert picture["timeline"]["processor_wasted_s"] == 40
    assert sum(row["held_s"] for row in picture["charges"]) == 40
    script.grant(second)
    number, claims = script.armings("j1")
    for claim in claims:
        script.arm(claim, number)
    script.passed(*claims).at(20)
    timeline = shown(script)["timeline"]
    assert timeline["processor_wasted_s"] == 40
    assert timeline["processor_run_s"] == 2 * 4 * 8
