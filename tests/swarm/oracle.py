"""Oracle: checks the truth at the sites and every event of the daemon against the promises.

The promises are listed in README.md; each idea has its rules in `rules`, and here each thing seen
is passed to those that it concerns. The oracle does not know how the core decides.
"""

from __future__ import annotations

from koala.core.invariants import check
from koala.core.model.actions import (
    Action,
    Announce,
    ArmClaim,
    ClaimProcessors,
    ReleaseClaim,
    ResizeClaim,
)
from koala.core.model.events import ClaimFenced, ClaimGone, Event, JobSubmitted
from koala.core.model.job import Finished
from koala.core.model.job_spec import JobSpec
from koala.core.model.parameters import Parameters
from koala.core.model.values import Instant, JobId, SiteName
from koala.core.scheduler import Scheduler
from tests.swarm.breach import parts, require
from tests.swarm.rules.allowances import Allowances
from tests.swarm.rules.barrier import Barrier
from tests.swarm.rules.charges import Charges
from tests.swarm.rules.ends import Ends
from tests.swarm.rules.partial_starts import PartialStarts
from tests.swarm.rules.ports import Ports
from tests.swarm.rules.processors import Processors
from tests.swarm.rules.record import Record
from tests.swarm.rules.requests import Requests
from tests.swarm.rules.site_errors import Errors
from tests.swarm.rules.tickets import Tickets
from tests.swarm.rules.watchers import Watchers
from tests.swarm.system.daemons import Daemon
from tests.swarm.system.starters import Starter


class Oracle:
    """Oracle of a run: witness of the sites and observer of the daemon."""

    def __init__(self, parameters: Parameters, specs: dict[JobId, JobSpec]) -> None:
        self.record = Record(parameters, specs)
        self.events = 0
        self.replays = 0
        self.tickets = Tickets()
        self._errors = Errors(parameters.errors_counted)
        self._allowances = Allowances()
        self._barrier = Barrier(self.record)
        self._charges = Charges(self.record)
        self._ends = Ends(self.record)
        self._partial_starts = PartialStarts(self.record)
        self._ports = Ports(self.record)
        self._processors = Processors(self.record)
        self._requests = Requests(self.record)
        self._watchers = Watchers()
        self.began = self._processors.began
        self.made_room = self._processors.made_room
        self.froze = self._partial_starts.froze
        self.passed = self._barrier.passed
        self.noticed = self._watchers.noticed
        self.require_told = self._watchers.require_told
        self.require_charged = self._charges.require_charged

    # --- the truth at the sites ---

    def armed(self, site: SiteName, starter: Starter) -> None:
        """See Witness."""
        self._barrier.armed(site, starter)
        self._ports.check(site, starter)

    def asked_to_leave(self, starter: Starter) -> None:
        """Count the programs that are asked to give way."""
        self.record.count("asked to leave")

    def stopped(self, starter: Starter) -> None:
        """Record that a program is dead."""
        running = self.record.jobs[parts(starter.claim)[0]].running
        if running.get(starter.claim) is starter:
            self._partial_starts.require_ended(starter, is_program=True)
            self._charges.stopped(starter)
            del running[starter.claim]

    def ended(self, site: SiteName, starter: Starter) -> None:
        """See Witness."""
        if starter.was_frozen:
            self._partial_starts.require_ended(starter, is_program=False)
        self._charges.ended(starter)
        self._processors.ended(site, starter)

    # --- the daemon ---

    def accepted(self, job: JobId) -> None:
        """Record an accepted job: promise 4 begins."""
        truth = self.record.jobs[job]
        truth.is_accepted = not truth.is_lost

    def handled(self, scheduler: Scheduler, event: Event, now: Instant) -> None:
        """Check every invariant of the core, after every event."""
        self.events += 1
        self.record.note(repr(event))
        check(scheduler, now)
        if isinstance(event, ClaimGone):
            self._ends.require_own_end(event)
        if isinstance(event, ClaimFenced):
            site = self._errors.asked.get(event.claim)
            if site is None or not scheduler.sites[site].is_connected:
                self._ends.fenced(event.claim)
        self._errors.heard(event)
        self._errors.require_rests(scheduler, event, self.record.parameters, now)
        self.tickets.require_short_holds(scheduler, now)
        self.tickets.require_caps(scheduler)
        self._allowances.require_kept(scheduler)

    def committed(self, scheduler: Scheduler, event: Event, actions: list[Action]) -> None:
        """Check the actions that are about to be sent."""
        self._errors.durable(event)
        self.tickets.committed(event, actions)
        if isinstance(event, ClaimGone):
            self._barrier.on_gone(event.claim)
        self._requests.note_drain(event)
        if isinstance(event, JobSubmitted):
            truth = self.record.jobs[event.job]
            require(not truth.is_submitted, 4, f"{event.job} is submitted twice")
            truth.is_submitted = True
            truth.after = event.spec.after
        for action in actions:
            match action:
                case ArmClaim():
                    self._barrier.on_arm(scheduler, action)
                case ResizeClaim(leave_s=float()):
                    self._requests.require_least(action)
                case ReleaseClaim():
                    self._barrier.on_release(action)
                case ClaimProcessors():
                    self._on_claimed(scheduler, action)
                case Announce(job=job_id) if job_id is not None:
                    self._ends.announced(scheduler, action, job_id)
                case _:
                    pass

    def _on_claimed(self, scheduler: Scheduler, action: ClaimProcessors) -> None:
        self.record.sizes[action.claim] = action.processors
        if action.waits:
            self.record.count("gated" if action.is_gated else "opened")
        if action.is_gated and action.claim in self._errors.asked:
            return  # it is kept from starting
        self._errors.asked.setdefault(action.claim, action.site)
        self._barrier.set_deadline(scheduler, action.claim)
        self._requests.require_usable(scheduler, action)

    def crashed(self) -> None:
        """Discard uncommitted events: no observer has received them."""
        self.record.note("the daemon dies")
        self.record.count("daemon lives")
        self._errors.crashed()

    def damage_detected(self, how: str) -> None:
        """Record that damage of a disk was detected."""
        self.record.count(how.partition(":")[2].strip())

    def is_lost(self, job: JobId) -> bool:
        """See Onlooker."""
        return self.record.jobs[job].is_lost

    def restored(self, daemon: Daemon) -> None:
        """Discard all that came after the backup, but for the claims running at the sites."""
        self.record.note("a backup is restored")
        self.record.count("restored")
        self._errors.is_known = False
        self.tickets.restored()
        self._allowances = Allowances()
        self._watchers.restored()
        self._requests.restored(daemon.scheduler)
        for job, truth in self.record.jobs.items():
            if not truth.is_submitted:
                continue
            found = daemon.job(job)
            truth.is_lost = found is None
            truth.is_accepted = truth.is_accepted and found is not None
            truth.is_finished = found is not None and isinstance(found.phase, Finished)
            truth.is_restored = True

    def replayed(self, before: str, after: str) -> None:
        """Check promise 8."""
        self.replays += 1
        require(before == after, 8, "a replay gave another state")

    # --- at the end ---

    def require_kept(self, daemon: Daemon) -> None:
        """Check promise 4: accepted jobs are kept; Finished stays Finished."""
        for job, truth in self.record.jobs.items():
            found = daemon.job(job)
            if truth.is_accepted:
                require(found is not None, 4, f"{job} was accepted and is lost")
            if truth.is_finished:
                phase = found.phase if found is not None else None
                require(isinstance(phase, Finished), 4, f"{job} was Finished and is {phase}")
