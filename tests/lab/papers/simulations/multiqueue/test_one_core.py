"""The live scheduler in a world without delays starts the same jobs at the same instants as the
simulator of the multiple-queues paper, under every discipline: there is one core.
"""

from __future__ import annotations

from collections import deque
from heapq import heappop, heappush
from itertools import islice

import pytest

from koala.core.model import events as ev
from koala.core.model.actions import Action, ArmClaim, ClaimProcessors, ReleaseClaim
from koala.core.model.grid import SiteFacts
from koala.core.model.job import ClaimEnd, EndKind, Finished
from koala.core.model.job_spec import ComponentSpec, JobSpec
from koala.core.model.parameters import Parameters
from koala.core.model.values import FOREVER, ClaimId, JobId, SiteName
from koala.core.model.visiting import draw_of
from koala.core.scheduler import Scheduler
from koala.lab.papers.multiqueue.simulation.arrivals import StreamJob
from koala.lab.papers.multiqueue.simulation.model import Started, System
from koala.lab.papers.multiqueue.simulation.setting import Setting
from koala.policies import chosen
from koala.policies.queueing.multiqueue import DISCIPLINES

SITES = (32, 32, 32, 32)
NAMES = [SiteName(f"s{n + 1}") for n in range(len(SITES))]
JOBS = 150
PARAMETERS = Parameters(ageing_s=FOREVER, claims_open_max=0, scan_interval_s=86_400.0)


class Live:
    """The scheduler, with sites that answer at once and jobs that last as long as they should."""

    def __init__(self, policy: str) -> None:
        self.policy = policy
        policies = chosen(placement="WF-distinct", queueing=policy)
        self.scheduler = Scheduler(PARAMETERS, policies)
        self.now = 0.0
        self.idle = dict(zip(NAMES, SITES, strict=True))
        self.ends: list[tuple[float, JobId]] = []
        self.running: dict[JobId, list[ClaimProcessors]] = {}
        self.services: dict[JobId, float] = {}
        self.started: dict[JobId, float] = {}
        self.draws: dict[float, float] = {}  # of the disciplines' coins, by the instant
        self.tell(ev.DaemonStarted(epoch=1))
        for name, processors in self.idle.items():
            facts = SiteFacts(processors=processors)
            self.tell(ev.SiteRegistered(site=name, facts=facts, idle=processors))

    def tell(self, *events: ev.Event) -> None:
        """Tell what happens now, and all that follows from it at this instant."""
        inbox = deque(events)
        while True:
            while inbox:
                event = inbox.popleft()
                actions = self.scheduler.handle(event, self.now)
                for action in actions:
                    inbox.extend(self.answers(action))
            wake_at = self.scheduler.wake_at
            if wake_at is None or wake_at > self.now:
                return
            inbox.append(ev.Woken())

    def answers(self, action: Action) -> list[ev.Event]:
        """Answer as an agent, at once."""
        match action:
            case ClaimProcessors(claim=claim, site=site, processors=processors):
                self.idle[site] -= processors
                assert self.idle[site] >= 0
                self.running.setdefault(job_of(claim), []).append(action)
                return [ev.ClaimGranted(claim=claim, nonce="n")]
            case ArmClaim(claim=claim, number=number):
                return [ev.ClaimArmed(claim=claim, number=number)]
            case ReleaseClaim(claim=claim):
                job = job_of(claim)
                if job not in self.started:
                    self.started[job] = self.now
                    heappush(self.ends, (self.now + self.services[job], job))
                return [ev.ClaimPassed(claim=claim, passed_at=self.now)]
            case _:
                return []

    def arrive(self, number: int, job: StreamJob) -> None:
        """Everybody says where he is at home, but under GS, where nobody is. The smallest component
        comes first: the order in the description is not that of the allocation."""
        self.run(job.at)
        self.now = job.at
        name = JobId(f"j{number}")
        self.services[name] = job.service
        spec = JobSpec(
            components=tuple(ComponentSpec(executable="x", processors=n) for n in job.sizes[::-1]),
            queue=None if self.policy == "GS" else NAMES[job.home],
        )
        self.tell(ev.JobSubmitted(job=name, spec=spec))

    def run(self, until: float) -> None:
        """Jobs end."""
        while self.ends and self.ends[0][0] <= until:
            self.now, job = heappop(self.ends)
            claims = self.running.pop(job)
            for claim in claims:
                self.idle[claim.site] += claim.processors
            end = ClaimEnd(kind=EndKind.EXITED, statuses=(0,), ended_at=self.now)
            before = self.scheduler.queues.departures
            self.tell(
                *(ev.ClaimGone(claim=claim.claim, end=end) for claim in claims),
                *(
                    ev.SiteReported(
                        site=claim.site,
                        idle=self.idle[claim.site],
                        through=self.scheduler.sites[claim.site].asks,
                    )
                    for claim in claims
                ),
            )
            if self.scheduler.queues.departures > before:
                self.draws[self.now] = draw_of(self.scheduler.queues.departures)
            assert isinstance(self.scheduler.jobs[job].phase, Finished)


def job_of(claim: ClaimId) -> JobId:
    return JobId(claim.split("/")[0])


def simulated(policy: str, stream: list[StreamJob], draws: dict[float, float]) -> list[Started]:
    """As the simulator has it, with the same coins."""
    started: list[Started] = []
    system = System(
        DISCIPLINES[policy],
        SITES,
        coin=lambda: draws.get(system.now, 0.0),
        on_start=started.append,
    )
    for number, job in enumerate(stream):
        system.depart_until(job.at)
        system.arrive(number, job)
    system.depart_until(FOREVER)
    return started


@pytest.mark.parametrize("policy", DISCIPLINES)
def test_the_live_scheduler_starts_jobs_as_the_simulator_does(policy: str) -> None:
    chosen_setting = Setting(
        policy=policy,
        mix=(40, 20, 20, 20),
        split=(40, 20, 20, 20),
        sizes=(4, 16),
        q=0.9,
        sites=SITES,
        utilization=0.95,
    )
    stream = list(islice(chosen_setting.stream.jobs(7), JOBS))
    live = Live(policy)
    for number, job in enumerate(stream):
        live.arrive(number, job)
    live.run(FOREVER)
    expected = simulated(policy, stream, live.draws)
    assert [(f"j{start.number}", start.at) for start in expected] == list(live.started.items())
    assert sum(start.at > start.job.at for start in expected) > JOBS / 5  # many had to wait
    for start in expected:
        attempt = live.scheduler.jobs[JobId(f"j{start.number}")].attempt
        assert attempt is not None
        sizes = start.job.sizes[::-1]
        members = sorted(attempt.members, key=lambda m: (-sizes[m.component], m.component))
        assert [member.site for member in members] == [NAMES[site] for site in start.sites]
