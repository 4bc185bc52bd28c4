"""One core: the daemon's scheduler, on sites that answer at once, starts and fails the very jobs
that the deadlines paper's simulation starts and fails.
"""

from __future__ import annotations

from dataclasses import replace
from functools import partial

import pytest

from koala.core.model import actions as ac
from koala.core.model import events as ev
from koala.core.model.grid import SiteFacts
from koala.core.model.job import ClaimEnd, EndKind
from koala.core.model.job_spec import ComponentSpec, Deadline, JobSpec
from koala.core.model.parameters import Parameters
from koala.core.model.values import ClaimId, JobId, SiteName
from koala.core.scheduler import Scheduler
from koala.lab.papers.deadlines.simulation.arrivals import (
    GlobalArrival,
    LocalArrival,
    global_arrivals,
    local_arrivals,
)
from koala.lab.papers.deadlines.simulation.counting import Outcome
from koala.lab.papers.deadlines.simulation.run import simulate
from koala.lab.papers.deadlines.simulation.setting import Setting
from koala.lab.sim.engine import Engine, Entry, Rank
from koala.policies import chosen
from koala.queue_model import Discipline, LocalQueue, local_queue

LEAD_S = 0.001
"""How long before a deadline the core asks for the last time, at least."""


class Ideal:
    """Sites whose local queues answer the core at the instant of the question."""

    def __init__(self, setting: Setting, seed: int) -> None:
        self.engine = Engine()
        self.started: dict[int, tuple[float, tuple[int, ...]]] = {}
        self.failed: list[int] = []
        self.killed: list[tuple[int, float]] = []  # site and submission of local jobs
        self.completed: list[tuple[int, float, float]] = []  # and the end
        self.scheduler = Scheduler(
            Parameters(
                at_deadline=setting.at_deadline,
                deadline_fraction=setting.fraction,
                deadline_tries_max=setting.tries_max,
                wait_s=setting.wait_s,
                wait_graces=0.0,
                claiming_step_min_s=0.001,
                claims_open_max=0,
                lead_min_s=LEAD_S,
                lead_max_s=LEAD_S,
                hold_s=10_000.0,
            ),
            chosen(placement="WF"),
        )
        self._queues: dict[SiteName, LocalQueue[str]] = {}
        self._ends: dict[ClaimId, SiteName] = {}
        self._runs: dict[str, float] = {}
        self._local: dict[SiteName, dict[str, LocalArrival]] = {}  # that run, in order of start
        self._coming: dict[str, LocalArrival] = {}
        self._inbox: list[ev.Event] = [ev.DaemonStarted(epoch=1)]
        self._wake: Entry | None = None
        for index, processors in enumerate(setting.sites):
            site = SiteName(f"s{index}")
            self._queues[site] = local_queue(processors=processors, discipline=Discipline.FCFS)
            self._local[site] = {}
            facts = SiteFacts(processors=processors, grace_s=LEAD_S, may_kill_local=True)
            self._inbox.append(ev.SiteRegistered(site=site, facts=facts, idle=processors))
            for number, local in enumerate(local_arrivals(setting, seed, index)):
                if local.at >= setting.time_s:
                    break
                self.engine.at(local.at, partial(self._come, site, number, local))
        for number, job in enumerate(global_arrivals(setting, seed), 1):
            if job.at >= setting.time_s:
                break
            self.engine.at(job.at, partial(self._submit, number, job))
        self._settle()

    def _come(self, site: SiteName, number: int, arrival: LocalArrival) -> None:
        key = f"{site} {number}"
        self._coming[key] = arrival
        self._queues[site].submit(key, processors=arrival.processors, estimate_s=arrival.run_s)
        self._advance(site)
        self._settle()

    def _local_over(self, site: SiteName, key: str) -> None:
        arrival = self._local[site].pop(key, None)
        if arrival is not None:  # else it was killed
            self.completed.append((int(site[1:]), arrival.at, self.engine.now))
            self._queues[site].end(key)
            self._advance(site)
            self._settle()

    def _kill(self, site: SiteName, processors: int) -> None:
        for key in reversed(tuple(self._local[site])):
            if processors <= self._queues[site].idle:
                break
            self.killed.append((int(site[1:]), self._local[site].pop(key).at))
            self._queues[site].end(key)

    def _advance(self, site: SiteName) -> None:
        for key in self._queues[site].advance(self.engine.now):
            self._local[site][key] = arrival = self._coming.pop(key)
            self.engine.after(arrival.run_s, partial(self._local_over, site, key))
        # A claim takes idle processors though a local job may wait for more than are idle.
        asks = self.scheduler.sites[site].asks if site in self.scheduler.sites else 0
        idle = self._queues[site].idle
        local = sum(arrival.processors for arrival in self._local[site].values())
        self._inbox.append(ev.SiteReported(site=site, idle=idle, through=asks, local=local))

    def _submit(self, number: int, arrival: GlobalArrival) -> None:
        part = ComponentSpec(executable="/bin/true", processors=arrival.processors)
        spec = JobSpec(
            components=(part,) * arrival.components, deadline=Deadline(at=arrival.deadline_at)
        )
        self._runs[f"j{number}"] = arrival.run_s
        self._inbox.append(ev.JobSubmitted(job=JobId(f"j{number}"), spec=spec))
        self._settle()

    # --- the core ---

    def _settle(self) -> None:
        """Hand the core what happened, and the sites what it wants, until both are at rest."""
        scheduler = self.scheduler
        while self._inbox:
            for action in scheduler.handle(self._inbox.pop(0), self.engine.now):
                self._carry_out(action)
            if not self._inbox and (scheduler.wake_at or self.engine.now + 1) <= self.engine.now:
                self._inbox.append(ev.Woken())
        if self._wake is not None:
            self._wake.cancel()
        if scheduler.wake_at is not None:
            self._wake = self.engine.at(scheduler.wake_at, self._woken, rank=Rank.WAKE)

    def _woken(self) -> None:
        self._inbox.append(ev.Woken())
        self._settle()

    def _carry_out(self, action: ac.Action) -> None:
        match action:
            case ac.ClaimProcessors(claim=claim, site=site, processors=processors):
                if action.may_kill:
                    self._kill(site, processors)
                assert processors <= self._queues[site].idle, "it knows what is idle"
                until = self.engine.now + action.hold_s
                self._queues[site].occupy(claim, processors=processors, until=until)
                self._ends[claim] = site
                self._inbox.append(ev.ClaimGranted(claim=claim, nonce=claim))
                self._advance(site)
            case ac.ArmClaim(claim=claim, number=number):
                self._inbox.append(ev.ClaimArmed(claim=claim, number=number))
            case ac.ReleaseClaim(claim=claim, release_at=release_at):
                self.engine.at(release_at, partial(self._pass, claim))
            case ac.Announce(phase="Failed", job=str(job)):
                self.failed.append(int(job[1:]))
            case _:
                pass

    def _pass(self, claim: ClaimId) -> None:
        job = claim.split("/", 1)[0]
        attempt = self.scheduler.jobs[JobId(job)].attempt
        assert attempt is not None
        sites = tuple(int(str(member.site)[1:]) for member in attempt.members)
        self.started[int(job[1:])] = (self.engine.now, sites)
        self._inbox.append(ev.ClaimPassed(claim=claim, passed_at=self.engine.now))
        self.engine.after(self._runs[job], partial(self._over, claim))
        self._settle()

    def _over(self, claim: ClaimId) -> None:
        site = self._ends.pop(claim)
        self._queues[site].end(claim)
        end = ClaimEnd(kind=EndKind.EXITED, statuses=(0,), ended_at=self.engine.now)
        self._inbox.append(ev.ClaimGone(claim=claim, end=end))
        self._advance(site)
        self._settle()


LP = Setting(at_deadline="fail", global_load=0.4, time_s=12_000, warmup_s=0)
GP = replace(LP, at_deadline="kill", local_sizes=(1, 1), time_s=9_000)
"""How large each local job is the core does not know; when all have one processor, it need not."""


@pytest.mark.slow
@pytest.mark.parametrize(
    "setting",
    [
        LP,
        replace(LP, wait_s=100.0, fraction=0.3, tries_max=3),
        replace(LP, wait_s=10.0, local_load=0.6),
        replace(GP, wait_s=10.0, local_load=0.6),
        replace(GP, local_load=0.8, tries_max=1),
    ],
)
def test_the_core_starts_the_jobs_that_the_simulation_starts(setting: Setting) -> None:
    """And kills the local jobs that it kills; all others end at the same instants."""
    ideal = Ideal(setting, 1)
    ideal.engine.run(setting.time_s)
    outcomes: list[Outcome] = []
    simulate(setting, 1, outcomes.append)
    killed = [(o.sites[0], o.submitted_at) for o in outcomes if o.outcome == "killed"]
    assert sorted(ideal.killed) == sorted(killed)
    ended = [(o.sites[0], o.submitted_at, o.ended_at) for o in outcomes if o.outcome == "completed"]
    assert sorted(ideal.completed) == sorted(ended)
    assert bool(killed) == (setting.at_deadline == "kill")
    jobs = [o for o in outcomes if o.kind == "global"]
    assert {o.outcome for o in jobs} == {"started", "failed"}
    assert len(jobs) > 50
    for outcome in jobs:
        if outcome.outcome == "started":
            at, sites = ideal.started[outcome.job]
            assert at == outcome.started_at == outcome.deadline_at
            assert sorted(sites) == sorted(outcome.sites)
        else:
            assert outcome.job in ideal.failed, outcome
