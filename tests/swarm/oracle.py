"""Oracle: checks the truth at the sites and every event of the daemon against the promises.

The promises are listed in README.md. The oracle does not know how the core decides.
"""

from __future__ import annotations

import hashlib
from collections import Counter, deque
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

from koala.core.invariants import check
from koala.core.model.actions import (
    Action,
    Announce,
    ArmClaim,
    ClaimProcessors,
    ReleaseClaim,
    ResizeClaim,
)
from koala.core.model.events import (
    ClaimFenced,
    ClaimGone,
    Event,
    JobSubmitted,
    SiteDrained,
    SiteRegistered,
    SiteResumed,
)
from koala.core.model.job import ArmNumber, EndKind, Finished, Job
from koala.core.model.job_spec import JobSpec, Split, StartType
from koala.core.model.parameters import Parameters
from koala.core.model.predecessors import Ended, Predecessor
from koala.core.model.values import ALL, ClaimId, Instant, JobId, Priority, Seconds, SiteName
from koala.core.scheduler import Scheduler
from koala.daemon.storage.records import Notice
from koala.lab.sim.engine import Engine
from tests.swarm.allowance_rules import Allowances
from tests.swarm.breach import parts, require
from tests.swarm.site_errors import Errors
from tests.swarm.system.batch import SIGKILL_S_MAX
from tests.swarm.system.daemons import Daemon
from tests.swarm.system.starters import Starter
from tests.swarm.ticket_rules import Tickets

EVENTS_KEPT = 60
ENDS = ("Finished", "Failed", "Cancelled")
TOLD_S = 5.0
"""Least time for the report of a pass, whatever `pause_max_s`."""
LOOK_S = 3.0
"""Limit on the time from an instant that the daemon waits for to the Stop at a starter."""
LINGER_S = 60.0  # a starter whose agent is away tells its end for so long
KNOWN_S = 60.0
CHARGE_S = 15.0
CLOCK_S = 0.05
"""Limit on the difference between clocks of different rates within a barrier."""


def needs_all(spec: JobSpec) -> bool:
    """True if no component with a barrier may start before it has tried a path."""
    return any((path.source, path.target) == (ALL, ALL) for path in spec.connect)


def _joins(scheduler: Scheduler, claim: ClaimId) -> bool:
    """Return True if a claim is of a growth, which has a barrier of its own, at any time."""
    job, _attempt, component = parts(claim)
    attempt = scheduler.jobs[job].attempt
    return attempt is not None and (
        attempt.growth is not None and component in attempt.growth.components
    )


def number_of(starter: Starter) -> ArmNumber:
    """Return the number of the Arm under which it has promised."""
    assert starter.armed is not None
    epoch, counter = starter.armed
    return ArmNumber(epoch=epoch, counter=counter)


@dataclass
class Truth:
    """True state of one job."""

    spec: JobSpec
    is_accepted: bool = False
    is_submitted: bool = False  # durably
    phase: str = ""
    is_lost: bool = False  # with the disk
    is_restored: bool = False  # from a backup, which may know less of it than was true
    is_finished: bool = False
    running: dict[ClaimId, Starter] = field(default_factory=dict)
    began: dict[ClaimId, None] = field(default_factory=dict)
    ran: dict[ClaimId, Starter] = field(default_factory=dict)
    passed: dict[tuple[int, int], ClaimId] = field(default_factory=dict)
    newest_passed: int = 0
    deadline_at: Instant | None = None  # once it was claimed
    after: tuple[Predecessor, ...] = ()  # as it was accepted


class Oracle:
    """Oracle of a run: witness of the sites and observer of the daemon."""

    def __init__(self, parameters: Parameters, specs: dict[JobId, JobSpec]) -> None:
        self.engine: Engine | None = None
        self.shift_s: Callable[[], Seconds] = lambda: 0.0  # the daemon's time less the true one
        self.well_since: Callable[[ClaimId], Instant | None] = lambda _: None  # as agents know it
        self.parameters = parameters
        self.jobs = {job: Truth(spec=spec) for job, spec in specs.items()}
        self.alive: dict[SiteName, dict[str, int]] = {}
        self.sizes: dict[ClaimId, int] = {}  # as they were asked for
        self.processors: dict[SiteName, int] = {}
        self.carries: dict[SiteName, bool] = {}  # connections to ports, through the grid
        self._token_ways: dict[str, tuple[str, str, bool]] = {}
        self.promises: dict[ClaimId, list[ArmNumber]] = {}
        self.releases: dict[tuple[JobId, int], ArmNumber] = {}  # the first of an attempt
        self.asked_away: set[ClaimId] = set()
        self.totals: dict[JobId, int] = {}  # largest ones that owners of malleable jobs ask for
        self.barriers: dict[object, ArmNumber] = {}  # of an attempt, or what joins a malleable job
        self.arms: dict[
            tuple[ClaimId, ArmNumber], tuple[Instant, Seconds, tuple[ClaimId, ...]]
        ] = {}
        self.offsets: dict[SiteName, Seconds] = {}
        self.killing: list[SiteName] = []
        self.events = 0
        self.replays = 0
        self.last: deque[str] = deque(maxlen=EVENTS_KEPT)
        self.seen: dict[str, int] = {}
        self.frozen: dict[tuple[JobId, int], Instant] = {}  # D of its first frozen starter
        self.ran_s: dict[ClaimId, Seconds] = {}  # as it was
        self.again_s: Seconds = 0.0  # of the agents
        self.free: dict[tuple[JobId, int], set[int]] = {}  # without a barrier, at the release
        self.heard_gone: set[ClaimId] = set()  # durably
        self.given_up: set[ClaimId] = set()  # while its site was away
        self.drained: dict[SiteName, bool] = {}
        self.notices: dict[int, Notice] = {}  # that watchers were told
        self.errors = Errors(parameters.errors_counted)
        self.tickets = Tickets()
        self.allowances = Allowances()
        self._hash = hashlib.sha256()

    @property
    def now(self) -> Instant:
        return self.engine.now if self.engine is not None else 0.0

    @property
    def trace(self) -> str:
        """Return a hash of everything observed, in order."""
        return self._hash.hexdigest()

    def note(self, text: str) -> None:
        line = f"{self.now:12.4f} {text}"
        self.last.append(line)
        self._hash.update(line.encode())

    def count(self, what: str) -> None:
        """Count a rare situation, to show that a swarm reaches it."""
        self.seen[what] = self.seen.get(what, 0) + 1

    # --- the truth at the sites ---

    def began(self, site: SiteName, starter: Starter) -> None:
        """Check promise 1: a starter takes processors that were idle."""
        claim = starter.claim
        self.note(f"{site}: {starter.nonce} begins")
        self.jobs[parts(claim)[0]].began[claim] = None
        used = self.alive.setdefault(site, {})
        require(claim not in used, 1, f"{claim} runs twice at {site}")
        used[claim] = starter.processors
        total = sum(used.values())
        require(total <= self.processors[site], 1, f"{site} runs {total}: {used}")

    def armed(self, site: SiteName, starter: Starter) -> None:
        """Record a promise."""
        number = number_of(starter)
        self.note(f"{site}: {starter.nonce} arms {number}")
        is_tried = starter.tried == ""
        text = f"{starter.claim} arms before its paths are open: {starter.tried}"
        spec = self.jobs[parts(starter.claim)[0]].spec
        require(is_tried or (not starter.asked_paths and not needs_all(spec)), 3, text)
        self._check_ports(site, starter)
        self.armed_list(starter.claim).append(number)

    def _check_ports(self, site: SiteName, starter: Starter) -> None:
        """Check that a starter is told the way to each port that its own test has found, with a
        token that belongs to this port and way alone."""
        spec = self.jobs[parts(starter.claim)[0]].spec
        ports = {(port["claim"], port["port"]): port for port in starter.ports}
        for (claim, number), port in ports.items():
            named = spec.component(parts(claim)[2]).ports
            require((port["name"], number) in named, 3, f"{claim} has no port {port['name']}")
            if claim != starter.claim:
                problem = starter.tried_ports.get((claim, number), "")
                text = f"{starter.claim} is told {port}, and found {problem!r}"
                require(port["is_forwarded"] == bool(problem), 3, text)
                require(not problem or self.carries[site], 3, f"{site} carries nothing: {text}")
            require(bool(port["token"]) == port["is_forwarded"], 3, f"{starter.claim}: {port}")
            way = (claim, port["name"], claim == starter.claim)
            if port["token"]:
                self.count("told of a forwarded port")
                known = self._token_ways.setdefault(port["token"], way)
                require(known == way, 3, f"one token opens {known} and {way}")

    def froze(self, site: SiteName, starter: Starter, late_at: Instant) -> None:
        """Record that a starter is stopped for long: promise 3 has a bound from its D on."""
        self.note(f"{site}: {starter.nonce} is frozen")
        self.count("frozen")
        job, attempt, _ = parts(starter.claim)
        self.frozen.setdefault((job, attempt), late_at)

    def _require_ended(self, starter: Starter, *, is_program: bool) -> None:
        """Require that an attempt with a frozen starter was ended in time: its programs by their
        starters, the frozen one by its agent and the batch system."""
        job, attempt, _ = parts(starter.claim)
        late_at = self.frozen.get((job, attempt))
        if late_at is None or (job, attempt) not in self.releases:
            return
        if self.jobs[job].spec.is_malleable:
            return  # the others go on without it
        limits = self.parameters
        due_at = late_at + max(limits.pause_max_s, TOLD_S) + LOOK_S + limits.kill_s
        if not is_program:
            due_at += limits.kill_s + self.again_s + SIGKILL_S_MAX
        late_s = self.now - due_at
        require(late_s <= 0, 3, f"{starter.claim} of a partial start ends {late_s:g} s too late")

    def armed_list(self, claim: ClaimId) -> list[ArmNumber]:
        return self.promises.setdefault(claim, [])

    def passed(self, site: SiteName, starter: Starter) -> None:
        """Check promise 3, at the instant of the pass."""
        claim = starter.claim
        job, attempt, component = parts(claim)
        self.note(f"{site}: {starter.nonce} passes")
        self.count("passes")
        truth = self.jobs[job]
        if not starter.is_free:
            require(not truth.is_finished, 3, f"{claim} passes and {job} is Finished")
        before = truth.passed.get((attempt, component))
        require(before is None, 3, f"{claim} passes after {before}")
        others = [other for other in truth.running if parts(other)[1] != attempt]
        require(not others, 3, f"{claim} passes while {others} are alive")
        newest = truth.newest_passed
        require(attempt >= newest, 3, f"{claim} passes after attempt {newest} has passed")
        if not starter.is_free:
            is_durable = (job, attempt) in self.releases
            require(is_durable, 3, f"{claim} passes and its release is not in the journal")
            self._require_armed(starter)
        if truth.deadline_at is not None:
            self._require_in_time(site, starter, truth)
        self._require_its_turn(claim, truth)
        if not truth.spec.rerun and not truth.is_restored:
            earlier = [c for (tried, _), c in truth.passed.items() if tried != attempt]
            require(not earlier, 3, f"{claim} passes after {earlier} did, and may not (rerun=no)")
        truth.passed[(attempt, component)] = claim
        truth.newest_passed = attempt
        truth.running[claim] = truth.ran[claim] = starter

    def _require_its_turn(self, claim: ClaimId, truth: Truth) -> None:
        """Require that the jobs before this one have ended as it asked."""
        for one in truth.after:
            before = self.jobs[one.job]
            is_over = before.is_finished or (one.ended is Ended.ANY and before.phase in ENDS)
            text = f"{claim} passes, and {one.describe()} is awaited; it is {before.phase}"
            require(is_over or before.is_lost, 3, text)
            self.count("after another")

    def _require_armed(self, starter: Starter) -> None:
        """Require that all members of the bundle have armed under the released number."""
        number = number_of(starter)
        truth = self.jobs[parts(starter.claim)[0]]
        spec = truth.spec
        _, _, peers = self.arms[(starter.claim, number)]
        named = {parts(peer)[2] for peer in peers}
        text = f"{starter.claim} was told of {starter.named}, and armed with {sorted(named)}"
        require(set(starter.named) == named, 3, text)
        for peer in peers:
            component = parts(peer)[2]
            if spec.component(component).start_type is StartType.NONE:
                continue
            is_armed = number in self.promises.get(ClaimId(peer), [])
            is_armed |= spec.is_malleable and peer in truth.passed.values()  # it joins these
            claim = starter.claim
            require(is_armed, 3, f"{claim} passes and {peer} has not armed {number}")
        strict = [
            index
            for index, component in enumerate(spec.components)
            if component.start_type is StartType.STRICT
        ]
        if spec.split is not None:
            self._require_within(starter, spec.split, peers)
        elif spec.quorum is None:
            missing = [index for index in strict if index not in named]
            require(not missing, 3, f"{starter.claim} passes without {missing}")
        else:
            text = f"{starter.claim} passes with {sorted(named)}"
            attempt = parts(starter.claim)[1]
            job = parts(starter.claim)[0]
            ran = {component for tried, component in truth.passed if tried == attempt}
            ran |= self.free[(job, attempt)]
            require(len(named | ran) >= spec.quorum, 3, text)

    def _require_within(self, starter: Starter, split: Split, peers: tuple[ClaimId, ...]) -> None:
        """Require that a flexible job starts within its bounds, with all that it was split into. A
        malleable one may leave out what is not claimed, and joins what runs."""
        sizes = [self.sizes[peer] for peer in peers]
        asked = [c for c in self.sizes if parts(c)[:2] == parts(starter.claim)[:2]]
        names = {parts(claim)[2] for claim in asked}
        is_whole = names == {parts(peer)[2] for peer in peers}
        text = f"{starter.claim} passes with {sizes} of components {names}: {split.describe()}"
        require(is_whole or split.is_malleable, 3, text)
        most = max(split.total, self.totals.get(parts(starter.claim)[0], 0))
        require(split.least <= sum(sizes) <= most, 3, text)
        require(all(split.part_min <= size <= split.part_max for size in sizes), 3, text)
        require(len(sizes) <= split.parts_max, 3, text)
        joins = number_of(starter) != self.releases[parts(starter.claim)[:2]]
        self.count("joined" if joins else "flexible")

    def _require_in_time(self, site: SiteName, starter: Starter, truth: Truth) -> None:
        """Require a pass in time: never before the deadline, as far as clocks agree, nor later than
        the tolerance. An Arm in time was received by its T, and lets no member pass later than D
        from then. And once only."""
        claim, number = starter.claim, number_of(starter)
        assert truth.deadline_at is not None
        early_s = truth.deadline_at - self.now - max(0.0, -self.offsets[site])
        require(early_s <= CLOCK_S, 3, f"{claim} passes {early_s:g} s before its deadline")
        release_at, late_s, _ = self.arms[(claim, number)]
        require(self.now <= release_at + late_s + CLOCK_S, 3, f"{claim} passes too late")
        attempts = [attempt for attempt, _ in truth.passed if attempt != parts(claim)[1]]
        is_new = not attempts or truth.is_restored
        require(is_new, 3, f"{claim} passes after attempts {attempts} did")
        self.count("in time")

    def made_room(self, site: SiteName, claim: str, idle: int, killed: list[int]) -> None:
        """Check that local jobs die only where site and operator allow it, for a job at its
        deadline, and no more of them than needed."""
        self.note(f"{site}: {killed} make room for {claim}")
        job, _, _ = parts(claim)
        truth = self.jobs[job]
        processors = self.sizes[ClaimId(claim)]
        allowed = site in self.killing and self.parameters.at_deadline == "kill"
        require(allowed, 6, f"local jobs die at {site}, which does not allow it")
        require(truth.deadline_at is not None, 6, f"local jobs die for {job}, without a deadline")
        assert truth.deadline_at is not None
        early_s = truth.deadline_at - self.parameters.lead_max_s - self.now
        require(early_s <= CLOCK_S, 6, f"local jobs die {early_s:g} s too early for {claim}")
        without_last = idle + sum(killed[:-1])
        is_needed = not killed or without_last < processors
        require(is_needed, 6, f"{killed} die for {processors} processors beside {idle}")
        self.count("killed" if killed else "room without a kill")

    def asked_to_leave(self, starter: Starter) -> None:
        """Count the programs that are asked to give way."""
        self.count("asked to leave")

    def stopped(self, starter: Starter) -> None:
        """Record that a program is dead."""
        claim = starter.claim
        running = self.jobs[parts(claim)[0]].running
        if running.get(claim) is starter:
            self._require_ended(starter, is_program=True)
            assert starter.passed_at is not None
            self.ran_s[claim] = self.now - starter.passed_at
            del running[claim]

    def ended(self, site: SiteName, starter: Starter) -> None:
        """Record that processors are free again."""
        claim = starter.claim
        self.note(f"{site}: {starter.nonce} is gone")
        if starter.was_frozen:
            self._require_ended(starter, is_program=False)
        if starter.passed_at is None:
            held_s = self.now - starter.began_at
            limits = self.parameters
            slack_s = limits.late_max_s + limits.pause_max_s + limits.kill_s + LINGER_S + 5.0
            is_short = held_s <= starter.hold_s * (1 + limits.clock_rate_error) + slack_s
            require(is_short, 5, f"{claim} held its processors for {held_s:g} s")
        del self.alive[site][claim]

    # --- the daemon ---

    def require_charged(self, job: Job) -> None:
        """Require that each program is charged for once, and for the time that it ran, wherever the
        daemon's wall clock was set meanwhile. Its starter may notice the end late."""
        slack_s = CHARGE_S + self.parameters.pause_max_s
        charges = {charge.claim: charge for charge in job.charges}
        require(len(charges) == len(job.charges), 4, f"{job.id} is charged twice: {charges}")
        for claim, ran_s in self.ran_s.items():
            if parts(claim)[0] != job.id:
                continue
            charge = charges.get(claim)
            is_known = charge is not None or self.jobs[job.id].is_restored
            require(is_known, 4, f"{claim} ran {ran_s:g} s uncharged")
            if charge is None or charge.end != EndKind.EXITED.value or charge.passed_at is None:
                continue
            assert charge.ended_at is not None
            over_s = charge.ended_at - charge.passed_at - ran_s
            require(abs(over_s) <= slack_s, 4, f"{claim} is charged for {over_s:g} s more")

    def accepted(self, job: JobId) -> None:
        """Record an accepted job: promise 4 begins."""
        truth = self.jobs[job]
        truth.is_accepted = not truth.is_lost

    def handled(self, scheduler: Scheduler, event: Event, now: Instant) -> None:
        """Check every invariant of the core, after every event."""
        self.events += 1
        self.note(repr(event))
        check(scheduler, now)
        if isinstance(event, ClaimGone):
            self._require_own_end(event)
        if isinstance(event, ClaimFenced):
            site = self.errors.asked.get(event.claim)
            if site is None or not scheduler.sites[site].is_connected:
                self.given_up.add(event.claim)
        self.errors.heard(event)
        self.errors.require_rests(scheduler, event, self.parameters, now)
        self.tickets.require_short_holds(scheduler, now)
        self.tickets.require_caps(scheduler)
        self.allowances.require_kept(scheduler)

    def _require_least(self, order: ResizeClaim) -> None:
        """Require that a malleable job keeps its least processors when a component is first asked
        to give way."""
        if order.claim in self.asked_away:
            return
        self.asked_away.add(order.claim)
        split = self.jobs[parts(order.claim)[0]].spec.split
        left = sum([peer.processors for peer in order.peers if peer.claim != order.claim])
        assert split is not None
        require(left >= split.least, 6, f"{order.claim} is to give way, and {left} are left")

    def _require_own_end(self, event: ClaimGone) -> None:
        """Require that a program's own end is real: it ends the job, or its part in it."""
        if event.end.kind is EndKind.EXITED:
            starter = self.jobs[parts(event.claim)[0]].ran.get(event.claim)
            is_own = starter is not None and starter.has_ended_itself
            require(is_own, 4, f"{event.claim} is said to have ended by itself: {event.end}")

    def committed(  # noqa: C901 - a line a kind
        self, scheduler: Scheduler, event: Event, actions: list[Action]
    ) -> None:
        """Check the actions that are about to be sent."""
        self.errors.durable(event)
        self.tickets.committed(event, actions)
        if isinstance(event, ClaimGone):
            self.heard_gone.add(event.claim)
        self._note_drain(event)
        if isinstance(event, JobSubmitted):
            truth = self.jobs[event.job]
            require(not truth.is_submitted, 4, f"{event.job} is submitted twice")
            truth.is_submitted = True
            truth.after = event.spec.after
        for action in actions:
            match action:
                case ArmClaim():
                    peers = tuple(peer.claim for peer in action.peers)
                    release_at = action.release_at - self.shift_s()
                    self.arms[(action.claim, action.number)] = (release_at, action.late_s, peers)
                    self._set_deadline(scheduler, action.claim)
                    if not _joins(scheduler, action.claim):
                        self._require_timed(action.claim, release_at)
                case ResizeClaim(leave_s=float()):
                    self._require_least(action)
                case ReleaseClaim():
                    job, attempt, _ = parts(action.claim)
                    self.releases.setdefault((job, attempt), action.number)
                    barrier = action.claim if self.jobs[job].spec.is_malleable else (job, attempt)
                    known = self.barriers.setdefault(barrier, action.number)
                    text = f"{action.claim} is released under {action.number} after {known}"
                    require(known == action.number, 3, text)
                    self.free.setdefault((job, attempt), self._free_of(job, attempt))
                case ClaimProcessors(claim=claim, site=site):
                    self.sizes[claim] = action.processors
                    if action.waits:
                        self.count("gated" if action.is_gated else "opened")
                    if action.is_gated and claim in self.errors.asked:
                        continue  # it is kept from starting
                    self.errors.asked.setdefault(claim, site)
                    self._set_deadline(scheduler, claim)
                    text = f"{claim} is asked of {site}, which is drained"
                    require(not self.drained[site], 7, text)
                    unusable = scheduler.sites[site].unusable_until
                    is_resting = unusable is not None and not scheduler.sites[site].is_probing
                    text = f"{action.claim} is asked of {site}, which rests"
                    require(not is_resting or self._is_hit_now(scheduler, site), 7, text)
                case Announce(job=job_id) if job_id is not None:
                    self._on_announced(scheduler, action, job_id)
                case _:
                    pass

    def _free_of(self, job: JobId, attempt: int) -> set[int]:
        """Return the components without a barrier that count for a quorum: they began, and no end
        of any was reported yet."""
        spec = self.jobs[job].spec
        return {
            component
            for claim in self.jobs[job].began
            if claim not in self.heard_gone
            for _, tried, component in (parts(claim),)
            if tried == attempt and spec.component(component).start_type is StartType.NONE
        }

    def _note_drain(self, event: Event) -> None:
        """Update the drained sites from the events; an event about an unregistered site has no
        effect."""
        match event:
            case SiteRegistered(site=site):
                self.drained.setdefault(site, False)
            case SiteDrained(site=site) if site in self.drained:
                self.drained[site] = True
            case SiteResumed(site=site) if site in self.drained:
                self.drained[site] = False
            case _:
                pass

    def _set_deadline(self, scheduler: Scheduler, claim: ClaimId) -> None:
        """Set the required start in true time; it moves when the daemon's wall clock was set."""
        job = parts(claim)[0]
        truth = self.jobs[job]
        at = truth.spec.deadline_at(scheduler.jobs[job].submitted_at)
        truth.deadline_at = None if at is None else at - self.shift_s()

    def _require_timed(self, claim: ClaimId, release_at: Instant) -> None:
        at = self.jobs[parts(claim)[0]].deadline_at
        if at is None:
            return
        late_s = release_at - at
        is_timed = -1e-6 <= late_s < self.parameters.late_max_s
        require(is_timed, 3, f"{claim}: T is {late_s:g} late")

    def _is_hit_now(self, scheduler: Scheduler, site: SiteName) -> bool:
        """True if the site became unusable in the same batch, after the claim was made."""
        until = scheduler.sites[site].unusable_until
        rest_s = self.parameters.probe_after_s
        return until is not None and until - rest_s >= self.now + self.shift_s() - 13.0

    def _on_announced(self, scheduler: Scheduler, said: Announce, job: JobId) -> None:
        truth = self.jobs[job]
        if said.phase:
            self.count(said.phase)
        if said.phase == "Finished":
            # Those without a barrier end with the attempt; one that was dropped has a pending Stop.
            alive = [claim for claim, s in truth.running.items() if not s.is_free]
            require(not alive, 3, f"{job} is Finished and {alive} run")
            truth.is_finished = True
            undone = [claim for claim in self._released(job) if self.well_since(claim) is None]
            is_well = len(undone) <= self._spare(truth.spec) or truth.is_restored
            is_well |= self._did_its_least(job, truth)
            require(is_well, 3, f"{job} is Finished and {undone} did not end well")
        if said.phase == "Stopping":
            self.count(said.text.split(":", 1)[0].split(" by ", 1)[0][:24])
        for what in ("gives back", "books", "no booking"):
            if what in said.text:
                self.count(what)
        if "preempted by" in said.text and said.phase == "Stopping":
            other = JobId(said.text.rsplit(" ", 1)[1])
            priorities = (truth.spec.priority, self.jobs[other].spec.priority)
            text = f"{job} is preempted by {other}: {priorities}"
            require(priorities == (Priority.LOW, Priority.HIGH), 6, text)
            require(truth.phase != "Releasing", 6, f"{job} was preempted in Releasing")
        if said.phase == "Placing" and truth.newest_passed and not truth.is_restored:
            self._require_undone(job, said.text)
        truth.phase = said.phase or truth.phase

    def _require_undone(self, job: JobId, text: str) -> None:
        """Check promise 3: finished work is not repeated if that was known. That is the case if all
        members released in the newest attempt have ended well, as the agents have known for a
        while, and none was given up while its site was away."""
        released = self._released(job)
        if not released or self.given_up.intersection(released):
            return
        known = [self.well_since(claim) for claim in released]
        is_done = all(at is not None and at < self.now - KNOWN_S for at in known)
        require(not is_done, 3, f"{job} is done, and to be run again: {text}")

    def _released(self, job: JobId) -> tuple[ClaimId, ...]:
        """Return the claims that were released together in the newest attempt."""
        attempt = self.jobs[job].newest_passed
        number = self.releases.get((job, attempt))
        for (claim, armed), (_, _, peers) in self.arms.items():
            if armed == number and parts(claim)[:2] == (job, attempt):
                return peers
        return ()

    def _did_its_least(self, job: JobId, truth: Truth) -> bool:
        """Return True if the components of a malleable job that ended well have its least
        processors; others were lost, or gave way."""
        split = truth.spec.split
        if split is None or not split.is_malleable:
            return False
        mine = [c for c in self.sizes if parts(c)[:2] == (job, truth.newest_passed)]
        well = [claim for claim in mine if self.well_since(claim) is not None]
        return sum([self.sizes[claim] for claim in well]) >= split.least

    def _spare(self, spec: JobSpec) -> int:
        """Count the released claims that a quorum can do without."""
        return 0 if spec.quorum is None else len(spec.components) - spec.quorum

    def crashed(self) -> None:
        """Discard uncommitted events: no observer has received them."""
        self.note("the daemon dies")
        self.count("daemon lives")
        self.errors.crashed()

    def damage_detected(self, how: str) -> None:
        """Record that damage of a disk was detected."""
        self.count(how.partition(":")[2].strip())

    def is_lost(self, job: JobId) -> bool:
        """See Onlooker."""
        return self.jobs[job].is_lost

    def restored(self, daemon: Daemon) -> None:
        """Discard all that came after the backup, but for the claims running at the sites."""
        self.note("a backup is restored")
        self.count("restored")
        self.errors.is_known = False
        self.tickets.restored()
        self.allowances = Allowances()
        self.notices.clear()
        # A site that came later is not known, nor what was said of it.
        self.drained = {name: site.is_drained for name, site in daemon.scheduler.sites.items()}
        for job, truth in self.jobs.items():
            if not truth.is_submitted:
                continue
            found = daemon.job(job)
            truth.is_lost = found is None
            truth.is_accepted = truth.is_accepted and found is not None
            truth.is_finished = found is not None and isinstance(found.phase, Finished)
            truth.is_restored = True

    def noticed(self, notices: Sequence[Notice]) -> None:
        """Check invariant H: each number once, in order, with one text only."""
        for notice in notices:
            newest = next(reversed(self.notices), 0)
            require(notice.number > newest, 4, f"notice {notice.number} comes after {newest}")
            self.notices[notice.number] = notice

    def require_told(self, kept: Sequence[Notice]) -> None:
        """Check invariant H: the notices that watchers received can be read again, have no gap, and
        report each end once."""
        numbers = [notice.number for notice in kept]
        require(numbers == list(range(1, len(kept) + 1)), 4, f"notices have gaps: {numbers}")
        by_number = {notice.number: notice for notice in kept}
        for number, notice in self.notices.items():
            require(by_number.get(number) == notice, 4, f"{notice} was told, and is not kept so")
        ends = Counter(notice.job for notice in kept if notice.phase in ENDS)
        twice = [job for job, count in ends.items() if count > 1]
        require(not twice, 2, f"the end of {twice} is told twice")

    def replayed(self, before: str, after: str) -> None:
        """Check promise 8."""
        self.replays += 1
        require(before == after, 8, "a replay gave another state")

    # --- at the end ---

    def require_kept(self, daemon: Daemon) -> None:
        """Check promise 4: accepted jobs are kept; Finished stays Finished."""
        for job, truth in self.jobs.items():
            found = daemon.job(job)
            if truth.is_accepted:
                require(found is not None, 4, f"{job} was accepted and is lost")
            if truth.is_finished:
                phase = found.phase if found is not None else None
                require(isinstance(phase, Finished), 4, f"{job} was Finished and is {phase}")
