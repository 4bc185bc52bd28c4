"""Check of ends: what is told Finished has run well, and is not run again (promise 3)."""

from __future__ import annotations

from koala.core.model.actions import Announce
from koala.core.model.events import ClaimGone
from koala.core.model.job import EndKind
from koala.core.model.job_spec import JobSpec
from koala.core.model.values import ClaimId, JobId, Priority
from koala.core.scheduler import Scheduler
from tests.swarm.breach import parts, require
from tests.swarm.rules.record import Record, Truth

KNOWN_S = 60.0


class Ends:
    """Ends of jobs and of their claims, as they are told."""

    def __init__(self, record: Record) -> None:
        self._record = record
        self._given_up: set[ClaimId] = set()  # while its site was away

    def announced(self, scheduler: Scheduler, said: Announce, job: JobId) -> None:
        truth = self._record.jobs[job]
        if said.phase:
            self._record.count(said.phase)
        if said.phase == "Finished":
            # Those without a barrier end with the attempt; one that was dropped has a pending Stop.
            alive = [claim for claim, s in truth.running.items() if not s.is_free]
            require(not alive, 3, f"{job} is Finished and {alive} run")
            truth.is_finished = True
            undone = [
                claim for claim in self._released(job) if self._record.well_since(claim) is None
            ]
            is_well = len(undone) <= self._spare(truth.spec) or truth.is_restored
            is_well |= self._did_its_least(job, truth)
            require(is_well, 3, f"{job} is Finished and {undone} did not end well")
        if said.phase == "Stopping":
            self._record.count(said.text.split(":", 1)[0].split(" by ", 1)[0][:24])
        for what in ("gives back", "books", "no booking"):
            if what in said.text:
                self._record.count(what)
        if "preempted by" in said.text and said.phase == "Stopping":
            other = JobId(said.text.rsplit(" ", 1)[1])
            priorities = (truth.spec.priority, self._record.jobs[other].spec.priority)
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
        if not released or self._given_up.intersection(released):
            return
        known = [self._record.well_since(claim) for claim in released]
        is_done = all(at is not None and at < self._record.now - KNOWN_S for at in known)
        require(not is_done, 3, f"{job} is done, and to be run again: {text}")

    def _released(self, job: JobId) -> tuple[ClaimId, ...]:
        """Return the claims that were released together in the newest attempt."""
        attempt = self._record.jobs[job].newest_passed
        number = self._record.releases.get((job, attempt))
        for (claim, armed), (_, _, peers) in self._record.arms.items():
            if armed == number and parts(claim)[:2] == (job, attempt):
                return peers
        return ()

    def _did_its_least(self, job: JobId, truth: Truth) -> bool:
        """Return True if the components of a malleable job that ended well have its least
        processors; others were lost, or gave way."""
        split = truth.spec.split
        if split is None or not split.is_malleable:
            return False
        mine = [c for c in self._record.sizes if parts(c)[:2] == (job, truth.newest_passed)]
        well = [claim for claim in mine if self._record.well_since(claim) is not None]
        return sum([self._record.sizes[claim] for claim in well]) >= split.least

    def _spare(self, spec: JobSpec) -> int:
        """Count the released claims that a quorum can do without."""
        return 0 if spec.quorum is None else len(spec.components) - spec.quorum

    def fenced(self, claim: ClaimId) -> None:
        """Record a claim that is given up while its site is away."""
        self._given_up.add(claim)

    def require_own_end(self, event: ClaimGone) -> None:
        """Require that a program's own end is real: it ends the job, or its part in it."""
        if event.end.kind is EndKind.EXITED:
            starter = self._record.jobs[parts(event.claim)[0]].ran.get(event.claim)
            is_own = starter is not None and starter.has_ended_itself
            require(is_own, 4, f"{event.claim} is said to have ended by itself: {event.end}")
