"""The observer and the gauges in the swarm: after every batch of a daemon that crashes, loses links
and restarts, what they count is what the state says when it is counted in full."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from typing import Any

import pytest

from koala.common.metrics import declarations as m
from koala.common.metrics.declarations import Metric, Source
from koala.common.metrics.meter import Meter
from koala.common.metrics.readings import Readings
from koala.core.model.job import TERMINAL
from koala.core.model.placement_queues import queue_label
from koala.core.model.values import JobId, SiteName
from koala.core.scheduler import Scheduler
from koala.daemon.loop.group_commit import DurableBatch, GroupCommit
from koala.daemon.metrics.gauges import read_jobs, read_sites
from koala.daemon.metrics.observer import BatchObserver
from tests.common.metrics.scraping import rendered, samples
from tests.swarm.swarm import attempt
from tests.swarm.system import daemons


class Life:
    """One life of a daemon: its observer, and a slow count of the same."""

    def __init__(self, scheduler: Scheduler) -> None:
        self.scheduler = scheduler
        self.meter = Meter(Source.DAEMON, read=Readings)
        self.observer = BatchObserver(scheduler, self.meter)
        self.asked_before = {site.name: site.asks for site in scheduler.sites.values()}
        self.open_before = len(scheduler.ledger)
        self.seen_ended: set[JobId] = set(scheduler.ended)
        self.ended: Counter[str] = Counter()
        self.submitted = 0
        self.asked: dict[SiteName, int] = {}
        self.still_open = self.open_before

    def observe(self, batch: DurableBatch) -> None:
        self.observer.observe(batch)
        kinds = Counter(type(record.event).__name__ for record in batch.records)
        self.submitted += kinds["JobSubmitted"]
        for job in self.scheduler.ended.keys() - self.seen_ended:
            self.seen_ended.add(job)
            self.ended[self.scheduler.jobs[job].phase_name.lower()] += 1
        # As of now: of the batch in which a life ends nothing leaves, so nobody observes it.
        self.asked = {site.name: site.asks for site in self.scheduler.sites.values()}
        self.still_open = len(self.scheduler.ledger)
        self.check_gauges(batch.records[-1].at)

    def check_gauges(self, now: float) -> None:
        readings = Readings()
        read_jobs(readings, self.scheduler, now)
        read_sites(readings, self.scheduler)
        phases = Counter(
            job.phase_name.lower()
            for job in self.scheduler.jobs.values()
            if not isinstance(job.phase, TERMINAL)
        )
        found: Counter[str] = Counter()
        for (phase, _), count in readings.of(m.JOBS):
            found[phase] += int(count)
        assert +found == phases
        queued = {labels[0] for labels, _ in readings.of(m.QUEUE_AGE)}
        assert queued == {queue_label(name) for name in self.scheduler.queues.lines}
        claimed: Counter[str] = Counter()
        for claim in self.scheduler.ledger.values():
            claimed[claim.site] += claim.processors
        for (site, use), processors in readings.of(m.SITE_PROCESSORS):
            assert processors >= 0
            if use in ("asked", "held", "running"):
                claimed[site] -= int(processors)
        assert not any(claimed.values())

    def check_counters(self) -> None:
        text = rendered(self.meter.registry)

        def total(metric: Metric, **labels: str) -> float:
            return sum(
                value
                for (name, found), value in samples(text).items()
                if name == metric.name and labels.items() <= dict(found).items()
            )

        for site, asks in self.asked.items():
            before = self.asked_before.get(site, 0)
            assert total(m.CLAIMS_ASKED, site=site) == asks - before
        asked = total(m.CLAIMS_ASKED) + self.open_before
        over = total(m.CLAIMS_REFUSED) + total(m.CLAIMS_ENDED)
        assert asked == over + self.still_open
        assert total(m.JOBS_SUBMITTED) == self.submitted
        for outcome in m.OUTCOME.values:
            assert total(m.JOBS_ENDED, outcome=outcome) == self.ended[outcome], outcome
        assert 'reason="other"' not in text
        assert 'phase="other"' not in text


@pytest.fixture
def lives(monkeypatch: pytest.MonkeyPatch) -> list[Life]:
    """Give every daemon of the swarm an observer; each life is added to the list."""
    found: list[Life] = []
    make: Callable[..., None] = GroupCommit.__init__

    def observed(self: GroupCommit, scheduler: Scheduler, *more: Any, **named: Any) -> None:
        life = Life(scheduler)
        make(self, scheduler, *more, **named, observe=life.observe)
        found.append(life)

    monkeypatch.setattr(GroupCommit, "__init__", observed)
    assert issubclass(daemons._Batches, GroupCommit)
    return found


def check(seeds: range, lives: list[Life]) -> Counter[str]:
    """Run seeds; return the sums of all counters without labels."""
    sums: Counter[str] = Counter()
    for seed in seeds:
        lives.clear()
        verdict = attempt(seed)
        assert not verdict.story, verdict.story
        for life in lives:
            life.check_counters()
            for (name, labels), value in samples(rendered(life.meter.registry)).items():
                sums[name] += int(value)
                for _, label in labels:
                    sums[f"{name}:{label}"] += int(value)
    return sums


def test_counts_are_those_of_the_state_whatever_goes_wrong(lives: list[Life]) -> None:
    sums = check(range(2), lives)
    rare = (m.CLAIMS_REFUSED, m.SETBACKS, m.SITE_DISCONNECTS, m.JOBS_ENDED)
    assert [metric.name for metric in rare if not sums[metric.name]] == []


@pytest.mark.long
def test_every_counter_of_the_core_counts_in_the_swarm(lives: list[Life]) -> None:
    sums = check(range(2, 22), lives)
    counted = [
        metric.name + ("_count" if metric.buckets else "")
        for metric in m.METRICS
        if Source.DAEMON in metric.sources and not metric.is_read
        if metric not in (m.CALLS, m.CALL_SECONDS, m.LOOP_LAG, m.PREEMPTIONS)
    ]
    assert [name for name in counted if not sums[name]] == []
    assert sums[f"{m.CLAIMS_REFUSED.name}:{m.TIMEOUT}"]
    assert sums[f"{m.CLAIM_HOLD.name}_count:lost"]
