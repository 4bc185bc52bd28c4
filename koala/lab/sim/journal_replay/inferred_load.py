"""Load of other users at a site, inferred from its reports.

load = processors - reported idle - our claims in the report. Rules:

- A report counts our claims by their ask numbers.
- A claim that was granted later held processors from the ask on (or would have, without the
  others), and until its end at the site.
- While a claim waits that will be refused, a local queue shows less than is idle, and that is our
  own effect. Then a report counts only where it shows *less* load than was known.
- A refusal shows in turn that the load left too little for the claim, even without a report.
- Sites report changes. So silence after the end of a claim means that others took its processors.
- A report soon after the end is dated back to it, because a local manager does not wait.
"""

from __future__ import annotations

from bisect import bisect_right
from collections import deque
from dataclasses import dataclass
from heapq import heappop, heappush
from operator import attrgetter, itemgetter
from typing import TypeAlias

from koala.core.model.values import Instant, Seconds
from koala.lab.sim.journal_replay.run_history import ClaimNote, SiteNote, SiteReport

REPORTED_S: Seconds = 0.5
"""Time after the end of a claim by which a site has reported the change."""

Steps = list[tuple[Instant, int]]
"""A step function: from each instant on, this value."""


def is_unexplained_refusal(claim: ClaimNote, reports: list[SiteReport]) -> bool:
    """Return True if the claim was refused although the site reported enough idle processors while
    it waited: no load explains that."""
    if not claim.is_refused or claim.gone_at is None:
        return False
    return any(
        report.through is not None
        and report.through >= claim.order.ask_number
        and claim.asked_at < report.at < claim.gone_at
        and report.idle >= claim.processors
        for report in reports
    )


def other_load(site: SiteNote) -> Steps:
    """Infer the processors that others used, by instant."""
    sweep = _Sweep()
    moves: list[tuple[Instant, int, _Move]] = []
    for at, facts in site.facts:
        moves.append((at, 0, facts.processors))
    for claim in site.claims:
        if claim.granted_at is not None:
            moves.append((claim.asked_at, 1, claim))
            if claim.freed_at is not None:
                moves.append((claim.freed_at, 5, _idle_after_end(claim.freed_at, site.reports)))
            continue
        is_proof = claim.is_refused and not is_unexplained_refusal(claim, site.reports)
        wait = _Wait(ask_number=claim.order.ask_number, at_most=claim.processors - 1)
        if not is_proof:
            wait.at_most = None
        moves.append((claim.asked_at, 2, wait))
        if claim.gone_at is not None:
            moves.append((claim.gone_at, 3, wait))
    moves.extend((report.at, 4, report) for report in site.reports)
    steps: Steps = []
    for at, _, what in sorted(moves, key=itemgetter(0, 1)):
        load = sweep.at(at, what)
        if not steps or steps[-1][1] != load:
            steps.append((at, load))
    return steps


@dataclass(slots=True)
class _Wait:
    """A claim that never began, from its ask to its end; at most `at_most` processors were free for
    it."""

    ask_number: int
    at_most: int | None


@dataclass(frozen=True, slots=True)
class _IdleAfterEnd:
    """Idle processors after the end of a claim; None: as many as before."""

    idle: int | None


def _idle_after_end(at: Instant, reports: list[SiteReport]) -> _IdleAfterEnd:
    """Find the last report that came soon after the end of a claim. A report that counts new claims
    is not used: it covers more than this end."""
    place = bisect_right(reports, at, key=attrgetter("at"))
    through = reports[place - 1].through if place else None
    soon = [
        report.idle
        for report in reports[place : bisect_right(reports, at + REPORTED_S, key=attrgetter("at"))]
        if report.through == through
    ]
    return _IdleAfterEnd(soon[-1] if soon else None)


_Move: TypeAlias = int | ClaimNote | _Wait | SiteReport | _IdleAfterEnd
"""The site's processors; a claim that will be granted; one that will not; a report; an end."""


@dataclass(slots=True)
class _Held:
    """Claims that hold processors, the first to end on top."""

    heap: list[tuple[Instant, int, int]]
    processors: int = 0

    def add(self, claim: ClaimNote) -> None:
        freed_at = claim.freed_at if claim.freed_at is not None else float("inf")
        heappush(self.heap, (freed_at, claim.order.ask_number, claim.processors))
        self.processors += claim.processors

    def free(self, at: Instant) -> None:
        while self.heap and self.heap[0][0] <= at:
            self.processors -= heappop(self.heap)[2]


class _Sweep:
    """Sweep over time that computes the load."""

    def __init__(self) -> None:
        self._processors = 0
        self._through = 0
        self._asked: deque[ClaimNote] = deque()  # granted later, in no report yet
        self._reported = _Held([])
        self._all = _Held([])
        self._waiting: dict[int, _Wait] = {}
        self._idle = 0
        self._known = 0

    def at(self, now: Instant, what: _Move) -> int:
        """Return the load from `now` on, after `what`."""
        self._all.free(now)
        match what:
            case int():
                self._processors = what
            case ClaimNote():
                self._asked.append(what)
                self._all.add(what)
            case _Wait():
                if self._waiting.pop(what.ask_number, None) is None:
                    self._waiting[what.ask_number] = what
            case SiteReport():
                self._take(what, now)
            case _IdleAfterEnd(idle=idle):
                self._know(self._idle if idle is None else idle, now)
        return self._load()

    def _take(self, report: SiteReport, now: Instant) -> None:
        self._through = max(self._through, report.through or 0)
        while self._asked and (
            report.through is None or self._asked[0].order.ask_number <= self._through
        ):
            self._reported.add(self._asked.popleft())
        self._idle = report.idle
        self._know(report.idle, now)

    def _know(self, idle: int, now: Instant) -> None:
        self._reported.free(now)
        found = max(0, self._processors - idle - self._reported.processors)
        self._known = min(self._known, found) if self._waiting else found

    def _load(self) -> int:
        bounds = [wait.at_most for wait in self._waiting.values() if wait.at_most is not None]
        if not bounds:
            return self._known
        return max(self._known, self._processors - self._all.processors - min(bounds))
