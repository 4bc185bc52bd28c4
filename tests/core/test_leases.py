"""The leases of starters as the core knows them: one that ended in silence proves a claim over."""

from dataclasses import replace

from koala.core.leases import Leases
from koala.core.model.claim import Asked, Claim, Grant, Granted, Released, Stopped
from koala.core.model.events import ClaimFenced
from koala.core.model.grid import Site, SiteFacts
from koala.core.model.job_spec import StartType
from koala.core.model.values import ClaimId, JobId, SiteName

CLAIM = ClaimId("j1/1/0/1")
DELFT = SiteName("delft")
JOB = JobId("j1")
STOPPED = Stopped(grant=Grant(at=10.0, nonce="n"), passed_at=None, may_run=True)


def ledger(
    *, granted_at: float = 10.0, asked_at: float = 5.0, is_released: bool = True
) -> dict[ClaimId, Claim]:
    return {
        CLAIM: Claim(
            id=CLAIM,
            job=JOB,
            attempt=1,
            component=0,
            site=DELFT,
            processors=1,
            start_type=StartType.STRICT,
            asked_at=asked_at,
            ask_number=1,
            hold_s=60.0,
            grace_until=asked_at + 5.0,
            phase=(Released if is_released else Granted)(grant=Grant(at=granted_at, nonce="n")),
        )
    }


def sites(*, is_connected: bool = True) -> dict[SiteName, Site]:
    facts = SiteFacts(processors=4, grace_s=5.0)
    return {DELFT: Site(name=DELFT, facts=facts, is_connected=is_connected, disconnected_at=50.0)}


def is_fenced(leases: Leases, claims: dict[ClaimId, Claim], now: float, **site: bool) -> bool:
    return bool(overdue(leases, claims, now, **site))


def overdue(
    leases: Leases, claims: dict[ClaimId, Claim], now: float, **site: bool
) -> list[ClaimFenced]:
    found = leases.overdue(claims, sites(**site), fence_s=100.0, hold_fence_s=20.0, now=now)
    return list(found)


def test_a_released_claim_is_fenced_when_silent_since_its_last_answer() -> None:
    leases = Leases(0.0)
    leases.answer(CLAIM, 30.0)
    assert not is_fenced(leases, ledger(), 129.9)
    assert is_fenced(leases, ledger(), 130.0)


def test_a_site_that_is_there_has_as_long_again_to_answer_a_stop() -> None:
    leases, claims = Leases(0.0), ledger()
    assert is_fenced(leases, claims, 110.0)
    claims[CLAIM].phase = STOPPED
    assert not is_fenced(leases, claims, 115.0)
    assert not is_fenced(leases, claims, 214.9)
    assert is_fenced(leases, claims, 215.0)


def test_a_site_that_comes_back_is_waited_for_from_then_on() -> None:
    leases, claims = Leases(0.0), ledger()
    claims[CLAIM].phase = STOPPED
    assert not is_fenced(leases, claims, 300.0)
    assert is_fenced(leases, claims, 301.0, is_connected=False)
    assert not is_fenced(leases, claims, 1000.0)  # and not from the first time on
    assert is_fenced(leases, claims, 1100.0)


def test_a_site_that_pings_for_a_stopped_claim_is_waited_for() -> None:
    """Its starter lives, or its outputs are on their way. A ping before the fence is none of it."""
    leases, claims = Leases(0.0), ledger()
    claims[CLAIM].phase = STOPPED
    leases.note_unanswered(CLAIM, 50.0)
    assert not is_fenced(leases, claims, 110.0)
    leases.note_unanswered(CLAIM, 200.0)
    assert not is_fenced(leases, claims, 299.9)
    assert is_fenced(leases, claims, 300.0)


def test_a_claim_that_is_stopped_with_another_silent_one_has_its_own_time() -> None:
    """Ending the first stops the second, which is over at once only if it is gone."""
    leases, claims = Leases(0.0), ledger()
    other = ClaimId("j1/1/1/1")
    claims[other] = replace(claims[CLAIM], id=other, component=1)
    found = leases.overdue(claims, sites(), fence_s=100.0, hold_fence_s=20.0, now=110.0)
    assert next(found) == ClaimFenced(claim=CLAIM)
    claims[CLAIM].phase = claims[other].phase = STOPPED
    assert list(found) == []
    assert overdue(leases, claims, 111.0) == []
    assert [event.claim for event in overdue(leases, claims, 210.0)] == [other]


def test_a_lease_that_was_longer_once_still_counts() -> None:
    """Its starter may not have heard of the shorter one."""
    claims = ledger()
    claims[CLAIM].fence_s = 600.0
    assert not is_fenced(Leases(0.0), claims, 609.0)
    assert is_fenced(Leases(0.0), claims, 610.0)


def test_an_unreleased_claim_is_fenced_after_the_hold_lease_where_its_site_is_away() -> None:
    held = ledger(is_released=False, granted_at=70.0)
    assert not is_fenced(Leases(0.0), held, 1e9, is_connected=True)
    assert not is_fenced(Leases(0.0), held, 89.0, is_connected=False)
    assert is_fenced(Leases(0.0), held, 90.0, is_connected=False)


def test_the_grant_counts_as_an_answer() -> None:
    assert not is_fenced(Leases(0.0), ledger(granted_at=70.0), 169.0)
    assert is_fenced(Leases(0.0), ledger(granted_at=70.0), 170.0)


def test_a_claim_without_barrier_may_begin_as_long_as_its_agent_knows_it() -> None:
    """It starts at check-in, which may come long after the ask: until then nothing is certain."""
    asked = ledger()
    asked[CLAIM] = replace(asked[CLAIM], start_type=StartType.NONE, phase=Asked())
    assert not is_fenced(Leases(0.0), asked, 1e6, is_connected=True)
    assert not is_fenced(Leases(0.0), asked, 154.0, is_connected=False)
    assert is_fenced(Leases(0.0), asked, 155.0, is_connected=False)


def test_an_infinite_lease_fences_nothing() -> None:
    leases = Leases(0.0)
    found = leases.overdue(ledger(), sites(), fence_s=float("inf"), hold_fence_s=20.0, now=1e12)
    assert list(found) == []


def test_answers_of_claims_that_are_gone_are_forgotten() -> None:
    leases = Leases(0.0)
    leases.answer(CLAIM, 500.0)
    assert overdue(leases, {}, 500.0) == []
    assert is_fenced(leases, ledger(), 110.0)
