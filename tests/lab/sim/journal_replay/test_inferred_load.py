"""Reports of sites reveal the load of their own users."""

from __future__ import annotations

from koala.core.model.actions import ClaimProcessors
from koala.core.model.grid import SiteFacts
from koala.core.model.job import ClaimEnd, EndKind
from koala.core.model.values import ClaimId, Instant, JobId, SiteName, UserName
from koala.lab.sim.journal_replay.inferred_load import is_unexplained_refusal, other_load
from koala.lab.sim.journal_replay.run_history import ClaimNote, SiteNote, SiteReport
from tests.harness.builders import a_component

DELFT = SiteName("delft")


def a_site(*reports: tuple[Instant, int, int], claims: list[ClaimNote] | None = None) -> SiteNote:
    """A site of ten processors that reported (at, idle, through)."""
    return SiteNote(
        facts=[(0.0, SiteFacts(processors=10))],
        reports=[
            SiteReport(at=at, idle=idle, through=through, rtt_s=0.0)
            for at, idle, through in reports
        ],
        claims=claims or [],
    )


def a_claim(
    number: int,
    processors: int,
    *,
    asked_at: Instant,
    granted_at: Instant | None = None,
    gone_at: Instant | None = None,
    end: EndKind = EndKind.EXITED,
) -> ClaimNote:
    """A claim with this ask number."""
    component = a_component(processors)
    order = ClaimProcessors(
        port=20_000,
        claim=ClaimId(f"j{number}/1/0/1"),
        site=DELFT,
        ask_number=number,
        is_granted=False,
        owner=UserName(""),
        processors=processors,
        hold_s=900.0,
        program=component.program("0"),
    )
    return ClaimNote(
        order=order,
        job=JobId(f"j{number}"),
        attempt=1,
        component=0,
        asked_at=asked_at,
        granted_at=granted_at,
        gone_at=gone_at,
        end=None if gone_at is None else ClaimEnd(kind=end, ended_at=gone_at),
    )


def test_what_is_neither_idle_nor_ours_is_the_load_of_others() -> None:
    ours = a_claim(1, 3, asked_at=10.0, granted_at=10.5, gone_at=50.0)
    reports = [(1.0, 8, 0), (10.1, 8, 0), (10.2, 5, 1), (30.0, 1, 1), (50.1, 4, 1)]
    load = other_load(a_site(*reports, claims=[ours]))
    assert load == [(0.0, 0), (1.0, 2), (30.0, 6)]


def test_silence_after_the_end_of_a_claim_says_that_others_took_what_it_gave_back() -> None:
    ours = a_claim(1, 3, asked_at=10.0, granted_at=10.5, gone_at=50.0)
    load = other_load(a_site((1.0, 8, 0), (10.2, 5, 1), claims=[ours]))
    assert load == [(0.0, 0), (1.0, 2), (50.0, 5)]


def test_what_is_reported_soon_after_an_end_is_dated_back_to_it() -> None:
    ours = a_claim(1, 3, asked_at=10.0, granted_at=10.5, gone_at=50.0)
    load = other_load(a_site((1.0, 8, 0), (10.2, 5, 1), (50.3, 6, 1), claims=[ours]))
    assert load == [(0.0, 0), (1.0, 2), (50.0, 4)]


def test_a_claim_that_waits_in_vain_is_no_load_and_tells_how_little_was_free() -> None:
    """The local queue shows nothing startable while our own claim waits at its head."""
    refused = a_claim(1, 4, asked_at=10.0, gone_at=15.0, end=EndKind.REFUSED)
    load = other_load(a_site((1.0, 8, 0), (10.1, 0, 1), (15.1, 2, 1), claims=[refused]))
    assert load == [(0.0, 0), (1.0, 2), (10.0, 7), (15.0, 2), (15.1, 8)]


def test_a_claim_that_was_stopped_while_it_waited_tells_nothing() -> None:
    stopped = a_claim(1, 4, asked_at=10.0, gone_at=12.0, end=EndKind.STOPPED)
    load = other_load(a_site((1.0, 8, 0), (10.1, 0, 1), (12.1, 7, 1), claims=[stopped]))
    assert load == [(0.0, 0), (1.0, 2), (12.1, 3)]


def test_a_refusal_in_spite_of_idle_processors_is_no_load() -> None:
    refused = a_claim(1, 4, asked_at=10.0, gone_at=15.0, end=EndKind.REFUSED)
    site = a_site((1.0, 8, 0), (10.1, 8, 1), claims=[refused])
    assert is_unexplained_refusal(refused, site.reports)
    assert other_load(site) == [(0.0, 0), (1.0, 2)]


def test_a_registration_counts_all_claims() -> None:
    ours = a_claim(1, 3, asked_at=10.0, granted_at=10.5)
    site = a_site((1.0, 8, 0), (10.2, 5, 1), claims=[ours])
    site.reports.append(SiteReport(at=60.0, idle=7, through=None, rtt_s=0.0))
    assert other_load(site)[-1] == (60.0, 0)
