"""Stated starts of waiting claims, and their comparison with the real ones."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

import pytest

from koala.core.model.actions import ClaimProcessors, StopClaim
from koala.core.model.claim import Claim
from koala.core.model.events import ClaimGranted, SiteReported
from koala.core.model.values import ClaimId, SiteName
from koala.core.stated_starts import (
    FIRST_RATIOS,
    PAST_MIN,
    RATIOS_MIN,
    stated_interval,
    usual_interval,
)
from koala.policies import chosen
from tests.harness.builders import a_component, a_job, a_site
from tests.harness.script import Script

HOUR = 3600.0
FIRST, SECOND = ClaimId("j1/1/0/1"), ClaimId("j1/1/0/2")


@pytest.fixture
def queued() -> Iterator[Script]:
    """A job in the queue of a busy site."""
    script = Script(chosen(tickets="dodge"))
    script.ignore(ClaimProcessors, StopClaim).tell(a_site("a", 8, idle=0, gate="qhold"))
    tell(script)
    script.tell(a_job("j1", a_component(4, site="a", wall_time_s=HOUR))).drop()
    yield script
    script.drop().close()


def tell(script: Script, **starts: float) -> None:
    known = {"first": FIRST, "second": SECOND}
    script.tell(
        SiteReported(
            site=SiteName("a"),
            idle=0,
            through=script.scheduler.sites[SiteName("a")].asks,
            local=8,
            queued=5,
            starts=tuple((known[name], start_s) for name, start_s in starts.items()),
        )
    ).drop()


def claim(script: Script, name: ClaimId = FIRST) -> Claim:
    return script.scheduler.ledger[name]


def test_the_first_word_about_an_open_claim_is_a_statement_and_later_ones_are_not(
    queued: Script,
) -> None:
    tell(queued, first=HOUR, second=2 * HOUR)
    assert not claim(queued).is_gated
    tell(queued, first=HOUR, second=2 * HOUR)
    stated = claim(queued).stated
    assert stated is not None
    assert (stated.start_at, claim(queued, SECOND).stated) == (HOUR, None)  # that one is gated
    queued.after(60.0)
    tell(queued, first=HOUR / 2, second=HOUR)
    assert claim(queued).stated == stated
    assert claim(queued).start_at == 60.0 + HOUR / 2
    low, high = FIRST_RATIOS
    assert stated.earliest_at == pytest.approx(low * (HOUR + 60) - 60)
    assert stated.latest_at == pytest.approx(high * (HOUR + 60) - 60)


def test_a_start_is_compared_and_makes_the_next_intervals(queued: Script) -> None:
    tell(queued, first=HOUR)
    tell(queued, first=HOUR)
    queued.after(2 * HOUR)
    queued.tell(ClaimGranted(claim=FIRST, nonce="n")).drop()
    site = queued.scheduler.sites[SiteName("a")]
    assert list(site.start_ratios) == pytest.approx([(2 * HOUR + 60) / (HOUR + 60)])
    assert stated_interval(site, HOUR)[1] < 2 * HOUR  # one start is no experience
    experienced = replace(site, start_ratios=RATIOS_MIN * site.start_ratios)
    assert stated_interval(experienced, HOUR) == pytest.approx((2 * HOUR, 2 * HOUR))


def test_waits_of_claims_of_its_size_tell_what_is_usual_where_a_site_tells_no_start(
    queued: Script,
) -> None:
    """A claim waits from when it is open."""
    queued.after(600.0)  # the site tells nothing: its first claim is opened after a while
    opened_at = claim(queued).opened_at
    assert opened_at is not None
    queued.tell(ClaimGranted(claim=FIRST, nonce="n")).drop()
    site = queued.scheduler.sites[SiteName("a")]
    assert site.past_waits == ((4, 600.0 - opened_at),)
    other = replace(claim(queued, SECOND), is_gated=False, asked_at=600.0)
    assert usual_interval(site, other, queued.now) is None  # one is no experience
    used = replace(site, past_waits=tuple((4, 60.0 * n) for n in range(1, PAST_MIN + 1)))
    assert usual_interval(used, other, queued.now + 90.0) == (0.0, 60.0 * PAST_MIN - 90.0)
    assert usual_interval(used, other, queued.now + 90_000.0) is None
    assert usual_interval(used, replace(other, processors=9), queued.now) is None
    assert usual_interval(used, replace(other, is_gated=True), queued.now) is None
