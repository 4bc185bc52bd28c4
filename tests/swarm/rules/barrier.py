"""Check of the barrier (promise 3): all members of an attempt pass it, or none, in time and in
turn."""

from __future__ import annotations

from koala.core.model.actions import ArmClaim, ReleaseClaim
from koala.core.model.job import ArmNumber
from koala.core.model.job_spec import JobSpec, Split, StartType
from koala.core.model.predecessors import Ended
from koala.core.model.values import ALL, ClaimId, Instant, JobId, SiteName
from koala.core.scheduler import Scheduler
from tests.swarm.breach import parts, require
from tests.swarm.rules.record import CLOCK_S, ENDS, Record, Truth
from tests.swarm.system.starters import Starter


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


class Barrier:
    """Arms, releases and passes of all attempts."""

    def __init__(self, record: Record) -> None:
        self._record = record
        self._barriers: dict[object, ArmNumber] = {}  # of an attempt, or what joins a malleable job
        self._free: dict[tuple[JobId, int], set[int]] = {}  # without a barrier, at the release
        self._heard_gone: set[ClaimId] = set()  # durably

    def armed(self, site: SiteName, starter: Starter) -> None:
        """Record a promise."""
        number = number_of(starter)
        self._record.note(f"{site}: {starter.nonce} arms {number}")
        is_tried = starter.tried == ""
        text = f"{starter.claim} arms before its paths are open: {starter.tried}"
        spec = self._record.jobs[parts(starter.claim)[0]].spec
        require(is_tried or (not starter.asked_paths and not needs_all(spec)), 3, text)
        self._record.promises.setdefault(starter.claim, []).append(number)

    def passed(self, site: SiteName, starter: Starter) -> None:
        """Check promise 3, at the instant of the pass."""
        claim = starter.claim
        job, attempt, component = parts(claim)
        self._record.note(f"{site}: {starter.nonce} passes")
        self._record.count("passes")
        truth = self._record.jobs[job]
        if not starter.is_free:
            require(not truth.is_finished, 3, f"{claim} passes and {job} is Finished")
        before = truth.passed.get((attempt, component))
        require(before is None, 3, f"{claim} passes after {before}")
        others = [other for other in truth.running if parts(other)[1] != attempt]
        require(not others, 3, f"{claim} passes while {others} are alive")
        newest = truth.newest_passed
        require(attempt >= newest, 3, f"{claim} passes after attempt {newest} has passed")
        if not starter.is_free:
            is_durable = (job, attempt) in self._record.releases
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
            before = self._record.jobs[one.job]
            is_over = before.is_finished or (one.ended is Ended.ANY and before.phase in ENDS)
            text = f"{claim} passes, and {one.describe()} is awaited; it is {before.phase}"
            require(is_over or before.is_lost, 3, text)
            self._record.count("after another")

    def _require_armed(self, starter: Starter) -> None:
        """Require that all members of the bundle have armed under the released number."""
        number = number_of(starter)
        truth = self._record.jobs[parts(starter.claim)[0]]
        spec = truth.spec
        _, _, peers = self._record.arms[(starter.claim, number)]
        named = {parts(peer)[2] for peer in peers}
        text = f"{starter.claim} was told of {starter.named}, and armed with {sorted(named)}"
        require(set(starter.named) == named, 3, text)
        for peer in peers:
            component = parts(peer)[2]
            if spec.component(component).start_type is StartType.NONE:
                continue
            is_armed = number in self._record.promises.get(ClaimId(peer), [])
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
            ran |= self._free[(job, attempt)]
            require(len(named | ran) >= spec.quorum, 3, text)

    def _require_within(self, starter: Starter, split: Split, peers: tuple[ClaimId, ...]) -> None:
        """Require that a flexible job starts within its bounds, with all that it was split into. A
        malleable one may leave out what is not claimed, and joins what runs."""
        sizes = [self._record.sizes[peer] for peer in peers]
        asked = [c for c in self._record.sizes if parts(c)[:2] == parts(starter.claim)[:2]]
        names = {parts(claim)[2] for claim in asked}
        is_whole = names == {parts(peer)[2] for peer in peers}
        text = f"{starter.claim} passes with {sizes} of components {names}: {split.describe()}"
        require(is_whole or split.is_malleable, 3, text)
        most = max(split.total, self._record.totals.get(parts(starter.claim)[0], 0))
        require(split.least <= sum(sizes) <= most, 3, text)
        require(all(split.part_min <= size <= split.part_max for size in sizes), 3, text)
        require(len(sizes) <= split.parts_max, 3, text)
        joins = number_of(starter) != self._record.releases[parts(starter.claim)[:2]]
        self._record.count("joined" if joins else "flexible")

    def _require_in_time(self, site: SiteName, starter: Starter, truth: Truth) -> None:
        """Require a pass in time: never before the deadline, as far as clocks agree, nor later than
        the tolerance. An Arm in time was received by its T, and lets no member pass later than D
        from then. And once only."""
        claim, number = starter.claim, number_of(starter)
        assert truth.deadline_at is not None
        early_s = truth.deadline_at - self._record.now - max(0.0, -self._record.offsets[site])
        require(early_s <= CLOCK_S, 3, f"{claim} passes {early_s:g} s before its deadline")
        release_at, late_s, _ = self._record.arms[(claim, number)]
        require(self._record.now <= release_at + late_s + CLOCK_S, 3, f"{claim} passes too late")
        attempts = [attempt for attempt, _ in truth.passed if attempt != parts(claim)[1]]
        is_new = not attempts or truth.is_restored
        require(is_new, 3, f"{claim} passes after attempts {attempts} did")
        self._record.count("in time")

    def on_arm(self, scheduler: Scheduler, action: ArmClaim) -> None:
        """Record an Arm that is about to be sent, and check its T."""
        peers = tuple(peer.claim for peer in action.peers)
        release_at = action.release_at - self._record.shift_s()
        self._record.arms[(action.claim, action.number)] = (release_at, action.late_s, peers)
        self.set_deadline(scheduler, action.claim)
        if not _joins(scheduler, action.claim):
            self._require_timed(action.claim, release_at)

    def on_release(self, action: ReleaseClaim) -> None:
        """Record a release that is about to be sent, and check its number."""
        job, attempt, _ = parts(action.claim)
        self._record.releases.setdefault((job, attempt), action.number)
        is_malleable = self._record.jobs[job].spec.is_malleable
        barrier = action.claim if is_malleable else (job, attempt)
        known = self._barriers.setdefault(barrier, action.number)
        text = f"{action.claim} is released under {action.number} after {known}"
        require(known == action.number, 3, text)
        self._free.setdefault((job, attempt), self._free_of(job, attempt))

    def on_gone(self, claim: ClaimId) -> None:
        """Record an end that was heard of durably."""
        self._heard_gone.add(claim)

    def _free_of(self, job: JobId, attempt: int) -> set[int]:
        """Return the components without a barrier that count for a quorum: they began, and no end
        of any was reported yet."""
        spec = self._record.jobs[job].spec
        return {
            component
            for claim in self._record.jobs[job].began
            if claim not in self._heard_gone
            for _, tried, component in (parts(claim),)
            if tried == attempt and spec.component(component).start_type is StartType.NONE
        }

    def set_deadline(self, scheduler: Scheduler, claim: ClaimId) -> None:
        """Set the required start in true time; it moves when the daemon's wall clock was set."""
        job = parts(claim)[0]
        truth = self._record.jobs[job]
        at = truth.spec.deadline_at(scheduler.jobs[job].submitted_at)
        truth.deadline_at = None if at is None else at - self._record.shift_s()

    def _require_timed(self, claim: ClaimId, release_at: Instant) -> None:
        at = self._record.jobs[parts(claim)[0]].deadline_at
        if at is None:
            return
        late_s = release_at - at
        is_timed = -1e-6 <= late_s < self._record.parameters.late_max_s
        require(is_timed, 3, f"{claim}: T is {late_s:g} late")
