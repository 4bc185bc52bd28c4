"""Any event, in any order, nonsense among them: no assertion trips, every invariant holds after
each, and a replay of what was recorded gives the same state without asking a policy. When the
nonsense stops, every job comes to its end and nothing is left of any.
"""

from __future__ import annotations

import json
from dataclasses import replace

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, rule

from koala.core.digest import digest
from koala.core.invariants import check
from koala.core.model import events as ev
from koala.core.model.claim import Asked, Granted, Released, Stopped
from koala.core.model.grid import SiteFacts
from koala.core.model.job import TERMINAL, ArmNumber, ClaimEnd, EndKind
from koala.core.model.job_spec import Deadline, InputMode, JobSpec, StartType
from koala.core.model.parameters import Parameters
from koala.core.model.predecessors import Ended, Predecessor
from koala.core.model.values import (
    ClaimId,
    FileName,
    JobId,
    Priority,
    SiteName,
    TransferId,
    UserName,
)
from koala.core.policy_api import NO_POLICIES
from koala.core.scheduler import Scheduler
from koala.core.snapshot import load, save
from koala.policies import chosen
from koala.policies.queueing.multiqueue import DISCIPLINES
from tests.core.fair import next_events, report
from tests.harness.builders import a_component, a_spec

SITES = [SiteName(name) for name in ("a", "b", "c")]
STEPS_MAX = 6_000
FILES = [FileName("f"), FileName("g")]
ANN = UserName("ann")
STRANGERS = [ClaimId("j1/1/0/1"), ClaimId("j2/3/1/2"), ClaimId("nobody/1/0/1")]
ENDS = st.builds(
    ClaimEnd,
    kind=st.sampled_from(EndKind),
    statuses=st.lists(st.integers(-9, 2), max_size=2).map(tuple),
)
SPECS = st.builds(
    a_spec,
    *(
        st.builds(
            a_component,
            st.integers(1, 5),
            st.sampled_from([None, None, *SITES]),
            start_type=st.sampled_from([StartType.STRICT, *StartType]),
        )
        for _ in range(2)
    ),
    file=st.sampled_from([None, *FILES]),
    queue=st.sampled_from([None, *SITES]),
    priority=st.sampled_from(Priority),
    quorum=st.sampled_from([None, None, 1, 2]),
    retries=st.integers(0, 1),
    rerun=st.booleans(),
    distinct=st.booleans(),
    input_mode=st.sampled_from(InputMode),
    max_hold_s=st.sampled_from([None, 20.0]),
    deadline=st.sampled_from([None, None, None, *(Deadline(after_s=s) for s in (1.0, 30.0, 9e4))]),
)
PARAMETERS = st.builds(
    Parameters,
    scan=st.sampled_from(["change", "interval"]),
    high_scans_per_low=st.integers(1, 3),
    queue_jobs_max=st.sampled_from([1, 3, 100, 100]),
    placement_tries_max=st.sampled_from([0, 0, 0, 9]),
    ageing_s=st.sampled_from([0.0, 60.0, float("inf")]),
    count_placed=st.booleans(),
    bandwidth_default_bps=st.sampled_from([10.0, 1000.0]),
    claim_fraction=st.sampled_from([0.5, 1.0]),
    claim_threshold=st.sampled_from([0.0, 0.5, 1.0]),
    claiming_tries_max=st.sampled_from([0, 3, 100]),
    hold_budget_user_s=st.sampled_from([float("inf"), 5000.0]),
    preempt=st.sampled_from(["complete", "component", "none"]),
    at_deadline=st.sampled_from(["fail", "kill"]),
    arms_max=st.sampled_from([1, 20]),
    consecutive_errors_max=st.sampled_from([1, 3, 1000, 1000]),
    probe_after_s=st.sampled_from([0.0, 60.0, 60.0, float("inf")]),
)


class Machine(RuleBasedStateMachine):
    """Whatever an arbitrary driver may tell the core."""

    def __init__(self) -> None:
        super().__init__()
        self.now = 100.0
        self.journal: list[tuple[ev.Event, float, str]] = []
        self.scheduler = Scheduler(Parameters(), NO_POLICIES)
        self.began_with = Parameters()
        self.jobs = 0
        self.epoch = 1
        self.is_broken = False
        self.over: dict[JobId, str] = {}

    @initialize(
        parameters=PARAMETERS,
        placement=st.sampled_from(["CF", "WF", "WF-distinct"]),
        queueing=st.sampled_from(["koala", "koala", "sjf", "fair-share", *DISCIPLINES]),
    )
    def begin(self, parameters: Parameters, placement: str, queueing: str) -> None:
        self.began_with = parameters
        self.scheduler = Scheduler(parameters, chosen(placement=placement, queueing=queueing))
        self.tell(ev.DaemonStarted(epoch=1))
        for site in SITES:
            self.register(site=site, idle=4, preemptible=True)

    def tell(self, event: ev.Event) -> None:
        self.is_broken = True  # until the event is handled
        self.scheduler.handle(event, self.now)
        self.is_broken = False
        self.journal.append((event, self.now, json.dumps(self.scheduler.answers)))

    def claim(self, index: int) -> ClaimId:
        """One of the ledger, or now and then a stranger."""
        known = [*self.scheduler.ledger, *STRANGERS[: 1 + len(self.scheduler.ledger) % 3]]
        return known[index % len(known)]

    def number(self, index: int) -> ArmNumber:
        """A number that is awaited somewhere, or not."""
        awaited = [
            job.arming.number for job in self.scheduler.jobs.values() if job.arming is not None
        ]
        known = [*awaited, *awaited, ArmNumber(epoch=1, counter=index % 5)]
        return known[index % len(known)]

    # --- time ---

    @rule(seconds=st.sampled_from([0.0, 0.01, 0.5, 3.0, 20.0, 100.0, 1000.0]))
    def wait(self, seconds: float) -> None:
        """Woken when the core wants it; a driver may also be late, and wake it for nothing."""
        until = self.now + seconds
        for _ in range(40):
            at = self.scheduler.wake_at
            if at is None or at > until:
                break
            self.now = max(self.now, at)
            self.tell(ev.Woken())
        self.now = until

    @rule()
    def wake_for_nothing(self) -> None:
        self.tell(ev.Woken())

    # --- jobs ---

    @rule(
        spec=SPECS,
        again=st.booleans(),
        before=st.dictionaries(st.integers(0, 9), st.sampled_from(Ended), max_size=2),
    )
    def submit(self, spec: JobSpec, again: bool, before: dict[int, Ended]) -> None:
        """Submit a job; half of the jobs wait for others, if these are not over."""
        after = [Predecessor(job=JobId(f"j{n}"), ended=end) for n, end in before.items()]
        fixed = [one.site for one in spec.components if one.site is not None]
        can_be_apart = len(set(fixed)) == len(fixed)  # admission rejects others
        spec = replace(spec, after=tuple(after), distinct=spec.distinct and can_be_apart)
        self.jobs += 0 if again and self.jobs else 1
        self.tell(ev.JobSubmitted(job=JobId(f"j{self.jobs}"), spec=spec, key=f"k{self.jobs}"))

    @rule(index=st.integers(0, 9))
    def cancel(self, index: int) -> None:
        self.tell(ev.JobCancelRequested(job=JobId(f"j{index}"), by=ANN))

    # --- claims ---

    @rule(index=st.integers(0, 99))
    def grant(self, index: int) -> None:
        claim = self.claim(index)
        self.tell(ev.ClaimGranted(claim=claim, nonce=f"{claim}#{index % 2}"))

    @rule()
    def grant_all(self) -> None:
        for claim in list(self.scheduler.ledger):
            self.tell(ev.ClaimGranted(claim=claim, nonce=f"{claim}#1"))

    @rule(index=st.integers(0, 99), which=st.integers(0, 9))
    def arm(self, index: int, which: int) -> None:
        self.tell(ev.ClaimArmed(claim=self.claim(index), number=self.number(which)))

    @rule(which=st.integers(0, 9))
    def arm_all(self, which: int) -> None:
        number = self.number(which)
        for claim in list(self.scheduler.ledger):
            self.tell(ev.ClaimArmed(claim=claim, number=number))

    @rule(index=st.integers(0, 99))
    def pass_(self, index: int) -> None:
        self.tell(ev.ClaimPassed(claim=self.claim(index), passed_at=self.now))

    @rule()
    def pass_all(self) -> None:
        for claim in list(self.scheduler.ledger):
            self.tell(ev.ClaimPassed(claim=claim, passed_at=self.now))

    @rule(index=st.integers(0, 99), end=ENDS)
    def go(self, index: int, end: ClaimEnd) -> None:
        self.tell(ev.ClaimGone(claim=self.claim(index), end=end))

    @rule()
    def all_stopped_go(self) -> None:
        for claim in list(self.scheduler.ledger.values()):
            if isinstance(claim.phase, Stopped):
                self.tell(ev.ClaimGone(claim=claim.id, end=ClaimEnd(kind=EndKind.STOPPED)))

    @rule(reason=st.sampled_from(["", "no account for ann"]))
    def all_are_refused(self, reason: str) -> None:
        for claim in list(self.scheduler.ledger.values()):
            if isinstance(claim.phase, Asked):
                end = ClaimEnd(kind=EndKind.REFUSED, reason=reason)
                self.tell(ev.ClaimGone(claim=claim.id, end=end))

    @rule()
    def all_end_well(self) -> None:
        for claim in list(self.scheduler.ledger.values()):
            if claim.passed_at is not None:
                end = ClaimEnd(kind=EndKind.EXITED, statuses=(0,), ended_at=self.now)
                self.tell(ev.ClaimGone(claim=claim.id, end=end))

    @rule(times=st.integers(1, 4))
    def proceed(self, times: int) -> None:
        """Let a site say what it would say without faults, so that jobs come to their end."""
        for _ in range(times):
            self.wait(0.0)
            for claim in list(self.scheduler.ledger.values()):
                match claim.phase:
                    case Asked():
                        self.tell(ev.ClaimGranted(claim=claim.id, nonce=f"{claim.id}#1"))
                    case Granted():
                        arming = self.scheduler.jobs[claim.job].arming
                        if arming is not None:
                            number = arming.number
                            self.tell(ev.ClaimArmed(claim=claim.id, number=number))
                    case Released():
                        self.tell(ev.ClaimPassed(claim=claim.id, passed_at=self.now))
                    case _:
                        pass

    @rule(index=st.integers(0, 99))
    def fence(self, index: int) -> None:
        self.tell(ev.ClaimFenced(claim=self.claim(index)))

    @rule(spec=SPECS)
    def come_and_go(self, spec: JobSpec) -> None:
        """A job on an idle grid that meets no trouble, beside whatever else there is."""
        for site in SITES:
            self.tell(ev.SiteResumed(site=site, by=ANN))
            self.register(site=site, idle=8, preemptible=True)
        self.submit(spec=spec, again=False, before={})
        self.wait(100.0)
        for transfer in list(self.scheduler.files.transfers):
            self.tell(ev.TransferFinished(transfer=transfer, size_bytes=1000, took_s=2.0))
        self.proceed(times=4)
        self.all_end_well()

    # --- sites ---

    @rule(site=st.sampled_from(SITES), idle=st.integers(0, 8), preemptible=st.booleans())
    def register(self, site: SiteName, idle: int, preemptible: bool) -> None:
        facts = SiteFacts(processors=8, grace_s=2.0, starts_after_stop=preemptible)
        self.tell(ev.SiteRegistered(site=site, facts=facts, idle=idle))

    @rule(site=st.sampled_from([SITES[0], *[SiteName("nowhere")] * 4]))
    def disconnect(self, site: SiteName) -> None:
        self.tell(ev.SiteDisconnected(site=site))

    @rule(site=st.sampled_from(SITES), idle=st.integers(0, 8), behind=st.integers(0, 2))
    def report(self, site: SiteName, idle: int, behind: int) -> None:
        asks = self.scheduler.sites[site].asks
        through = max(0, asks - behind)
        self.tell(ev.SiteReported(site=site, idle=idle, through=through, rtt_s=0.01 * behind))

    @rule(
        site=st.sampled_from(SITES),
        kind=st.sampled_from(["resume", "resume", "resume", "drain", "lost"]),
    )
    def operate(self, site: SiteName, kind: str) -> None:
        match kind:
            case "drain":
                self.tell(ev.SiteDrained(site=site, by=ANN))
            case "resume":
                self.tell(ev.SiteResumed(site=site, by=ANN))
            case _:
                self.tell(ev.SiteDeclaredLost(site=site, by=ANN))

    # --- files ---

    @rule(
        file=st.sampled_from(FILES),
        site=st.sampled_from(SITES),
        size_bytes=st.sampled_from([0, 500, 500, 1_000_000]),
        is_there=st.booleans(),
    )
    def replica(self, file: FileName, site: SiteName, size_bytes: int, is_there: bool) -> None:
        if is_there:
            self.tell(ev.ReplicaAdded(file=file, site=site, size_bytes=size_bytes))
        else:
            self.tell(ev.ReplicaRemoved(file=file, site=site))

    @rule(index=st.integers(0, 9), at=st.sampled_from([None, *SITES]), is_well=st.booleans())
    def transfer(self, index: int, at: SiteName | None, is_well: bool) -> None:
        known = [*self.scheduler.files.transfers, TransferId("j1/1/t1")]
        transfer = known[index % len(known)]
        if is_well:
            self.tell(ev.TransferFinished(transfer=transfer, size_bytes=1000, took_s=2.0))
        else:
            self.tell(ev.TransferFailed(transfer=transfer, at=at, reason="broken"))

    # --- the daemon ---

    @rule(queueing=st.sampled_from([None, None, "koala", *DISCIPLINES]))
    def restart(self, queueing: str | None) -> None:
        self.epoch += 1
        if queueing is not None:
            self.scheduler.policies = chosen(queueing=queueing)
        self.tell(ev.DaemonStarted(epoch=self.epoch))

    @rule(parameters=PARAMETERS)
    def change(self, parameters: Parameters) -> None:
        self.tell(ev.ParametersChanged(parameters=parameters))

    # --- what always holds ---

    @invariant()
    def everything_holds(self) -> None:
        check(self.scheduler, self.now)

    @invariant()
    def what_is_over_stays_over(self) -> None:
        for job in self.scheduler.jobs.values():
            before = self.over.get(job.id)
            assert before in (None, job.phase_name), f"{job.id} was {before}: {job.story}"
            if isinstance(job.phase, TERMINAL):
                self.over[job.id] = job.phase_name

    @invariant()
    def wanted_names_every_claim_once(self) -> None:
        named: list[ClaimId] = []
        for site in self.scheduler.sites:
            wanted = self.scheduler.wanted(site)
            named += [hold.claim for hold in wanted.holds]
            named += [stop.claim for stop in wanted.stops]
        assert sorted(named) == sorted(self.scheduler.ledger)

    def come_to_an_end(self) -> None:
        """The daemon starts once more, on a grid that can take every job and meets no trouble."""
        scheduler = self.scheduler
        self.restart(queueing="koala")
        parameters = replace(scheduler.parameters, hold_budget_user_s=float("inf"))
        self.tell(ev.ParametersChanged(parameters=parameters))
        for site in SITES:
            self.tell(ev.SiteResumed(site=site, by=ANN))
            facts = SiteFacts(processors=16, grace_s=2.0)
            self.tell(ev.SiteRegistered(site=site, facts=facts, idle=0))
        for file in FILES:
            self.tell(ev.ReplicaAdded(file=file, site=SITES[0], size_bytes=500))
        self.submit(spec=a_spec(4, 4, file="f"), again=False, before={})
        for _ in range(STEPS_MAX):
            said = 0
            for event in next_events(scheduler, self.now):
                self.tell(event)
                said += 1
            for site in SITES:
                self.tell(report(scheduler, site))
            wake_at = scheduler.wake_at
            if not said and all(job.has_ended for job in scheduler.jobs.values()):
                break
            assert said or wake_at is not None, self.stories()
            self.now = self.now + 0.01 if wake_at is None or said else max(self.now, wake_at)
            self.tell(ev.Woken())
        assert all(job.has_ended for job in scheduler.jobs.values()), self.stories()
        left = (scheduler.ledger, scheduler.placed, scheduler.files.transfers, scheduler.fresh)
        assert not any(left), left
        assert len(scheduler.queues) == 0
        assert not any(site.unreported for site in scheduler.sites.values())

    def stories(self) -> list[object]:
        """Return the stories of the jobs that are not over."""
        jobs = [job for job in self.scheduler.jobs.values() if not job.has_ended]
        return [(self.now, job.id, job.phase, job.story) for job in jobs]

    def teardown(self) -> None:
        if self.is_broken:
            return  # an assertion has tripped: the daemon is gone, nothing of it is in the journal
        self.come_to_an_end()
        again = Scheduler(self.began_with, NO_POLICIES)
        for number, (event, now, answers) in enumerate(self.journal):
            if number == len(self.journal) // 2:
                again = load(json.loads(json.dumps(save(again))), NO_POLICIES)
            again.replay(event, now, json.loads(answers))
        assert digest(again) == digest(self.scheduler), "a replay gives another state"


Machine.TestCase.settings = settings(max_examples=30, stateful_step_count=40)
TestMachine = pytest.mark.slow(Machine.TestCase)
