"""Run of a scenario: plays it, with the oracle after every step; then faults stop and the rest is
judged."""

from __future__ import annotations

import logging
from dataclasses import dataclass
from functools import partial

import structlog

from koala.core.digest import digest
from koala.core.leases import answer_s
from koala.core.model.events import AllowancesSet, SiteResumed
from koala.core.model.job import Delayed, Placing, Waiting
from koala.core.model.values import ClaimId, Instant, JobId, Seconds
from koala.core.policy_api import Policies
from koala.core.scheduler import Scheduler
from koala_agent.claim_driver import SAME_CLOCK_S
from tests.swarm.breach import parts, require
from tests.swarm.drawing.seed import draw
from tests.swarm.foreign import policies_of
from tests.swarm.oracle import Oracle
from tests.swarm.scenario import BANDWIDTH_BPS, Scenario
from tests.swarm.system.faults import FaultPlan
from tests.swarm.system.journals import notices_of, replayed
from tests.swarm.system.world import OPERATOR, World

SILENT = structlog.make_filtering_bound_logger(logging.CRITICAL)
CHECK_S = 20.0
PATIENCE_S = 1800.0
UNRESPONSIVE_S = 45.0  # a daemon that is stopped, or commits slowly


@dataclass(frozen=True, slots=True, kw_only=True)
class Outcome:
    """Outcome of a run."""

    trace: str
    digest: str
    events: int
    replays: int
    ended_at: Instant
    seen: dict[str, int]


class Run:
    """World of one seed, run to its end."""

    def __init__(self, scenario: Scenario) -> None:
        self.scenario = scenario
        parameters = scenario.parameters
        self.oracle = Oracle(parameters, scenario.specs)
        self.oracle.record.carries = {one.name: one.facts.forwards for one in scenario.settings}
        plan = FaultPlan(
            scenario.seed,
            chances=scenario.chances,
            kinds=scenario.kinds,
            quiet_at=scenario.faults_s,
            lasts_s_max=scenario.lasts_s_max,
            latency_s=scenario.latency_s,
            pause_s_max=parameters.pause_max_s,
            only=scenario.only,
        )
        self.world = World(
            scenario.settings,
            parameters=parameters,
            policies=self._policies(),
            policy_names=tuple(self._policy_names().items()),
            plan=plan,
            onlooker=self.oracle,
            program=self._program,
            bandwidth=lambda _source, _target: BANDWIDTH_BPS,
            pace=scenario.pace,
            bookable=scenario.bookable,
        )
        self.plan = plan
        record = self.oracle.record
        record.engine = self.world.engine
        record.shift_s = lambda: self.world.daemon.shift_s
        record.well_since = self._well_since
        record.again_s = scenario.pace.again_s
        record.processors = {s.name: s.facts.processors for s in scenario.settings}
        record.offsets = {s.name: s.offset_s for s in scenario.settings}
        record.killing = [s.name for s in scenario.settings if s.facts.may_kill_local]

    def _policies(self) -> Policies:
        return policies_of(self._policy_names(), self.scenario.foreign)

    def _policy_names(self) -> dict[str, str]:
        drawn = self.scenario
        return {
            "placement": drawn.placement,
            "queueing": drawn.queueing,
            "tickets": drawn.tickets,
            "resizing": drawn.resizing,
        }

    def _program(self, claim: ClaimId) -> tuple[Seconds, int]:
        job, attempt, component = parts(claim)
        programs = self.scenario.programs
        run_s, status = programs.get((job, component), programs[(job, 0)])  # flexible: more of them
        return run_s, status if attempt < 3 else 0

    def _well_since(self, claim: ClaimId) -> Instant | None:
        known = (site.agent.well.get(claim) for site in self.world.sites.values())
        return min((at for at in known if at is not None), default=None)

    @property
    def scheduler(self) -> Scheduler:
        return self.world.daemon.scheduler

    @property
    def bound_s(self) -> Seconds:
        """Time after the last fault by which all jobs that fit have ended, and nothing is left."""
        limits = self.scenario.parameters
        leases_s = 4 * (limits.fence_s + limits.hold_fence_s)
        return 7200.0 + 20 * leases_s + 8 * limits.probe_after_s

    def play(self) -> Outcome:
        """Run the scenario. Raises BreachError or AssertionError when a promise or an invariant
        breaks."""
        before = structlog.get_config()["wrapper_class"]
        structlog.configure(wrapper_class=SILENT)  # daemon and agents log all that they do
        try:
            with self.world.running():
                return self._play()
        finally:
            structlog.configure(wrapper_class=before)

    def _play(self) -> Outcome:
        world, scenario = self.world, self.scenario
        for file, site, size_bytes in scenario.replicas:
            world.add_replica(file, site, size_bytes)
        if scenario.allowances:
            world.insist(AllowancesSet(allowances=scenario.allowances))
        for job, spec in scenario.specs.items():
            world.submit(job, spec, scenario.arrivals[job], scenario.again.get(job, ()))
        for at, name, processors, run_s in scenario.locals_:
            arrive = partial(world.sites[name].submit_local, processors, run_s)
            world.engine.at(at, arrive)
        for job, at in scenario.cancels.items():
            world.engine.at(at, partial(world.cancel, job))
        for at, job, total in scenario.resizes:
            totals = self.oracle.record.totals
            totals[job] = max(total, totals.get(job, 0))
            world.engine.at(at, partial(world.resize, job, total))
        world.engine.after(CHECK_S, self._check_again)
        world.engine.run(
            scenario.faults_s + 60.0
        )  # a daemon that was down is back, and has been told
        for name in world.sites:  # an operator whose last word was to drain comes back
            world.insist(SiteResumed(site=name, by=OPERATOR))
        world.engine.at(scenario.faults_s + PATIENCE_S, self._give_up_wishes)
        self._play_out()
        self._judge()
        return Outcome(
            trace=self.oracle.record.trace,
            digest=digest(self.scheduler),
            events=self.oracle.events,
            replays=self.oracle.replays,
            ended_at=world.engine.now,
            seen=self.oracle.record.seen,
        )

    def _give_up_wishes(self) -> None:
        """Exclude wishes without a guarantee: a job that prefers a rate (policy Service) may never
        get it. A delayed one would take the place of another job."""
        for job in tuple(self.scheduler.jobs.values()):
            if job.spec.preferred_mips is not None and isinstance(
                job.phase, Waiting | Delayed | Placing
            ):
                self.world.cancel(job.id)

    def _check_again(self) -> None:
        self._check()
        self._check_gates()
        self.world.engine.after(CHECK_S, self._check_again)

    def _check(self) -> None:
        """Check promise 5: a claim that is certainly dead is not waited for."""
        daemon = self.world.daemon
        if not daemon.is_up or self.world.engine.now < daemon.stopped_until + UNRESPONSIVE_S:
            return  # stopped again and again, it may not have got to it
        limits = self.scenario.parameters
        slack_s = 2 * limits.hold_fence_s + UNRESPONSIVE_S
        for claim in daemon.scheduler.ledger.values():
            if not claim.may_run:
                continue  # nothing waits for it
            is_there = daemon.scheduler.sites[claim.site].is_connected
            if is_there and self._well_since(claim.id) is not None:
                continue  # its agent pings while outputs are on their way
            late_s = self.world.engine.now - daemon.fence_at(claim)
            if is_there:
                late_s -= answer_s(claim, limits.fence_s)
            require(late_s < slack_s, 5, f"{claim.id} is dead for {late_s:g} s and waited for")

    def _check_gates(self) -> None:
        """Check that gates in force are those that the daemon wants, once faults have stopped."""
        daemon, now = self.world.daemon, self.world.engine.now
        if not daemon.is_up or now < self.scenario.faults_s + self.scenario.lasts_s_max:
            return
        for name, site in self.world.sites.items():
            if not daemon.scheduler.sites[name].is_connected:
                continue
            holds = [claim.hold for claim in site.agent.claims.values()]
            if abs(daemon.shift_s) < SAME_CLOCK_S and not daemon.machine.wall_error_s:
                self.oracle.tickets.require_instants(daemon.scheduler, holds)
            for claim, is_gated in site.batch.gates().items():
                self.oracle.tickets.require_gate(
                    daemon.scheduler, ClaimId(claim), now, is_gated=is_gated
                )

    def _play_out(self) -> None:
        """Play until all is over and gone, or the bound is reached."""
        engine = self.world.engine
        until = self.scenario.faults_s + self.bound_s
        step_s = 5.0
        while engine.now < until and not self._is_quiet():
            engine.run(engine.now + step_s)
            step_s = min(step_s * 1.2, 120.0)

    def _is_quiet(self) -> bool:
        if not self.world.daemon.is_at_rest:
            return False
        jobs = [self.world.daemon.job(job) for job in self._expected()]
        has_ended = all(job is not None and job.has_ended for job in jobs)
        sites = self.world.sites.values()
        is_empty = not any(site.alive or site.batch.alive or site.agent.claims for site in sites)
        # An agent that is still away has not heard yet which copies nobody wants any more.
        is_there = all(site.is_connected for site in self.scheduler.sites.values())
        return has_ended and not self.scheduler.ledger and is_empty and is_there

    def _expected(self) -> list[JobId]:
        """Return all jobs but those lost with the disk."""
        return [job for job in self.scenario.specs if not self.oracle.is_lost(job)]

    def _judge(self) -> None:
        scheduler = self.scheduler
        for job in scheduler.jobs.values():
            story = "\n".join(f"{at:10.3f} {text}" for at, text in job.story[-12:])
            require(job.has_ended, 9, f"{job.id} is {job.phase} at the bound:\n{story}")
            self.oracle.require_charged(job)
        for job_id in self._expected():
            is_known = self.world.daemon.job(job_id) is not None
            require(is_known, 4, f"{job_id} was submitted and is lost")
        require(not scheduler.ledger, 5, f"claims are not gone: {list(scheduler.ledger)}")
        require(not scheduler.files.transfers, 5, "transfers are left")
        for site in self.world.sites.values():
            running = [starter.nonce for starter in site.alive]
            require(not running, 5, f"{site.name} runs {running}")
            require(not site.batch.alive, 5, f"{site.name} queues {site.batch.alive}")
            require(not site.agent.claims, 5, f"{site.name} keeps {site.agent.claims}")
            # Finished copies may stay for a day, for a claim that was not asked for yet.
            halves = [name for name, part in site.agent.spool.items() if part.took_s is None]
            require(not halves, 5, f"{site.name} keeps halves of copies: {halves}")
        self.oracle.require_kept(self.world.daemon)
        self.oracle.require_told(notices_of(self.world.daemon.disk))
        self._judge_replay()

    def _judge_replay(self) -> None:
        """Check promise 8 over the whole journal, if the last commit is the last event."""
        daemon = self.world.daemon
        found = digest(replayed(daemon.disk))
        require(found == digest(daemon.scheduler), 8, "the journal gives another state")


def run(seed: int) -> Outcome:
    """Return the outcome of a seed. Raises BreachError or AssertionError with the breach."""
    return Run(draw(seed)).play()
