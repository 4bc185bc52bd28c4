"""Timelines of a grid, drawn at random, for charts."""

from __future__ import annotations

from random import Random

from koala.views.records.base import Moment
from koala.views.records.chart import ChartClaim, ChartSite, ClaimState, GridTimeline, LocalUse

SINCE = 1_800_000_000.0
SPAN_S = 1_000.0


def timeline_of(text: str, seed: int = 1, claims: int = 40) -> GridTimeline:
    """A period with claims in every state, some of them beyond its bounds; `text` is every name."""
    random = Random(seed)
    now = SINCE + random.uniform(0.1, 1.2) * SPAN_S
    sites = tuple(
        ChartSite(
            site=f"{text}{number}",
            processors=random.choice((0, 1, 10, 10_000)),
            local=tuple(
                LocalUse(Moment.of(SINCE + at), random.randrange(20)) for at in range(0, 1_000, 99)
            ),
        )
        for number in range(random.randrange(4))
    )
    found = [_claim(random, text, number, now) for number in range(claims)]
    return GridTimeline(
        since=Moment.of(SINCE), until=Moment.of(SINCE + SPAN_S), now_at=Moment.of(now),
        sites=sites, claims=tuple(found), left_out=random.randrange(2),
    )  # fmt: skip


def _claim(random: Random, text: str, number: int, now: float) -> ChartClaim:
    states: tuple[ClaimState, ...] = ("queued", "gated", "held", "running", "ended")
    reached = random.randrange(len(states))
    asked = SINCE + random.uniform(-1, 1) * SPAN_S
    instants = [asked := asked + random.uniform(0, 300) for _ in range(3)]
    granted, passed, ended = (
        Moment.of(at) if reached >= place else None
        for at, place in zip(instants, (2, 3, 4), strict=True)
    )
    return ChartClaim(
        claim=f"j{number}/1/0/1", job=f"{text}j{number // 2}", name=text, user=text, part=text,
        site=f"{text}{random.randrange(4)}", processors=random.choice((0, 1, 3, 20_000)),
        state=states[reached], is_wasted=random.random() < 0.2,
        asked_at=Moment.of(instants[0] - 50),
        granted_at=granted, passed_at=passed, ended_at=ended,
        start_at=Moment.of(now + 30) if reached < 2 else None,
        end_at=Moment.of(now + 500) if reached in (0, 3) else None,
    )  # fmt: skip
