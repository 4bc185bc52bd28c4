"""Track the claims of a batch manager: stored rows, what listings say, and idle figures."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable
from dataclasses import dataclass

import msgspec

from koala.common.runtime.structured_log import get_logger
from koala.errors import LocalManagerError
from koala_agent.lrm.dialect import BatchJob, JobState, claim_of
from koala_agent.lrm.job_table import JobTable
from koala_agent.lrm.local_manager import CANCELLED, EndCause, Ended, Listed, Queued, Running

log = get_logger()

ENDED_MAX = 10_000
"""Ended claims that are remembered, so that none of them is submitted again."""


UNSURE = "?"
"""Number of a booking that may have been made, as far as its row tells."""


class ClaimRow(msgspec.Struct, frozen=True, kw_only=True):
    """Claim as it is stored, from just before its submission. `number` is empty until the batch
    system has assigned it; `is_unwanted` is set by a withdrawal, with a `verdict` when the agent
    itself withdrew it; `account` is the one that it runs as, empty for the agent's own. One that
    `is_gated` must not start; `gate` is what was used for that last, empty for a claim that never
    was gated. `native` are options of its own for the batch system; `charged` is the project or
    quality of service that it names, `queue` the queue. `taken` are the processors that it was
    given, 0: as many as it asks for. One with `begins_at` is booked until `ends_at`: `booking` is
    the number of its booking, UNSURE from just before it is made. The `reservation` that one names
    begins at `reserved_at`."""

    claim: str
    processors: int
    number: str = ""
    is_unwanted: bool = False
    verdict: tuple[EndCause, str] | None = None
    end: tuple[EndCause, int | None, str] | None = None
    account: str = ""
    gpus: int = 0
    is_gated: bool = False
    gate: str = ""
    native: str = ""
    charged: str = ""
    queue: str = ""
    taken: int = 0
    begins_at: float = 0.0
    ends_at: float = math.inf
    booking: str = ""
    reserved_at: float = 0.0
    reservation: str = ""

    @property
    def known_start(self) -> float:
        """Instant at which its processors are kept for it; 0 for a claim that stands in line."""
        return self.begins_at or self.reserved_at


@dataclass(slots=True, kw_only=True)
class TrackedClaim:
    """Claim of ours.

    `reported` is the last reported kind of state. `is_listed` is set when the batch system has
    listed the job under this number in this life, and no later poll missed it. `is_gated` is what
    the last listing says; the other fields of gates are the gatekeeper's: an order is due, what it
    came to, when and how often it was tried, and when it must be renewed.
    """

    row: ClaimRow
    state: JobState = JobState.QUEUED
    reported: type[Listed] | None = None
    missing_since: float | None = None
    is_listed: bool = False
    has_started: bool = False  # its starter said so
    left_at: float | None = None  # when its starter said that all is over, and hung up
    is_gone: bool = False  # it was the only one, so that no process is left
    is_late: bool = False  # its processors are not free soon after that
    was_seen: bool = False  # it was listed long after that
    is_settled: bool = False  # what was to learn of that is known
    record_again_at: float = -math.inf
    cancel_again_at: float = -math.inf
    is_submitting: bool = False  # its submission is under way
    submitted_in_poll: int = 0  # the last poll that had begun at the end of its submission
    is_limited: bool = False  # it waits because our user has reached a limit
    reason: str = ""  # why it waits, in the words of the last listing
    waited_for: str = ""  # the batch system's words for the wait of a claim that is withdrawn
    is_gated: bool = False
    is_gate_due: bool = False
    gate_error: LocalManagerError | None = None
    gate_tries: int = 0
    gate_again_at: float = -math.inf
    gate_renew_at: float = -math.inf

    def needs_submission(self) -> bool:
        """Return True when the claim has no batch job yet, and none is being submitted."""
        return not self.row.number and self.row.end is None and not self.is_submitting

    def lacks_job(self) -> bool:
        """Return True for a claim that is known by its booking alone: an agent ended before its
        batch job was submitted."""
        return self.needs_submission() and bool(self.row.booking)

    def is_waiting(self) -> bool:
        """Return True for a wanted claim that the batch system's queue has."""
        is_queued = self.is_listed and self.state is JobState.QUEUED
        return is_queued and not self.row.is_unwanted and self.row.end is None

    def may_start(self) -> bool:
        """Return True for a claim that waits, is not to be gated, and has no start of its own."""
        is_kept = self.row.is_gated or self.row.known_start > 0
        return self.state is JobState.QUEUED and not is_kept

    def is_unsettled(self) -> bool:
        """Return True when only a listing can tell what becomes of the claim: it has no job's
        number, it may start or be refused, or its end was told and not seen."""
        row = self.row
        is_over = row.is_unwanted or self.left_at is not None or self.missing_since is not None
        return is_over or not row.number or self.state is not JobState.RUNNING

    def uses_processors(self) -> bool:
        """Return True for a claim that has processors; one whose starter has left frees them,
        unless that takes long here."""
        return self.state is JobState.RUNNING and (self.left_at is None or self.is_late)

    def is_leaving(self) -> bool:
        """Return True for a claim whose job is listed, although its starter has left."""
        return self.is_listed and self.state is JobState.RUNNING and not self.uses_processors()

    def is_eligible(self) -> bool:
        """Return True for a claim that waits for processors, as the batch system counts it."""
        is_queued = self.state is JobState.QUEUED and self.row.end is None
        return is_queued and not self.is_gated and not self.row.known_start

    def listed(self) -> Listed:
        """Return the claim as it is listed."""
        claim = self.row.claim
        if self.row.end is not None:
            cause, exit_status, reason = self.row.end
            return Ended(
                claim=claim,
                cause=cause,
                exit_status=exit_status,
                reason=reason,
                waited_for=self._why_waited() if cause is EndCause.WITHDRAWN else "",
            )
        if self.is_gone:
            return Ended(claim=claim, cause=EndCause.EXITED)
        if self.state in (JobState.QUEUED, JobState.STUCK):
            return Queued(claim=claim)
        return Running(claim=claim)

    def _why_waited(self) -> str:
        return self.waited_for or ("" if self.reason in NO_REASON else self.reason)


NO_REASON = ("", "None", "(null)")
"""Reasons of a batch system that has none yet."""


class TrackedClaims:
    """Claims of a batch manager, stored at each change, and jobs under our name that are nobody's.

    `unwanted` has the numbers of those jobs with their accounts; `limits` tells by account, and by
    what its claims name, when the batch system last said that it has reached a limit, and in which
    words. Jobs of claims in `apart` are left alone.
    """

    def __init__(
        self,
        table: JobTable[ClaimRow],
        *,
        clock: Callable[[], float],
        explain: Callable[[str], str] = str,
    ) -> None:
        """`explain` adds words to the batch system's reason for a wait."""
        self.unwanted: dict[str, str] = {}
        self.limits: dict[tuple[str, str], tuple[float, str]] = {}
        self.apart: set[str] = set()
        self._table = table
        self._clock = clock
        self._explain = explain
        # Jobs queued in an earlier life may run by now.
        self._claims = {
            row.claim: TrackedClaim(
                row=row, state=JobState.RUNNING if row.number else JobState.QUEUED
            )
            for row in table.load()
        }

    def get(self, claim: str) -> TrackedClaim | None:
        """Return a claim; None if it is not known."""
        return self._claims.get(claim)

    def all(self) -> list[TrackedClaim]:
        """Return all claims as they are now."""
        return list(self._claims.values())

    def open(self) -> list[TrackedClaim]:
        """Return the claims that have not ended."""
        return [tracked for tracked in self._claims.values() if tracked.row.end is None]

    def add(self, row: ClaimRow) -> TrackedClaim:
        """Track a claim; nothing is stored yet."""
        tracked = self._claims[row.claim] = TrackedClaim(row=row)
        return tracked

    def forget(self, claim: str) -> None:
        """Forget a claim, also in the table."""
        del self._claims[claim]
        self._table.forget(claim)

    def change(self, tracked: TrackedClaim, **changes: object) -> None:
        """Change fields of a claim's row, and store it."""
        tracked.row = msgspec.structs.replace(tracked.row, **changes)
        self.save(tracked)

    def save(self, tracked: TrackedClaim) -> None:
        """Store a claim's row."""
        self._table.save(tracked.row.claim, tracked.row)

    def apply_listing(
        self, account: str, jobs: Iterable[BatchJob], *, owner: str
    ) -> dict[str, set[str]]:
        """Compare the listed jobs of an account with its claims; return the numbers of the jobs
        under each claim's name. Jobs of users other than `owner` are foreign."""
        found: dict[str, list[BatchJob]] = {}
        for job in jobs:
            claim = claim_of(job.name, scope=self._table.scope)
            if claim is None or claim in self.apart:
                continue
            if job.owner in ("", owner or job.owner) or self._has_number(claim, job.number):
                found.setdefault(claim, []).append(job)
        numbers = {claim: {job.number for job in named} for claim, named in found.items()}
        ours = set().union(*numbers.values())
        self.unwanted = {
            n: whose for n, whose in self.unwanted.items() if n in ours or whose != account
        }
        for claim, named in found.items():
            tracked = self._claims.get(claim)
            if tracked is None or tracked.row.account == account:
                self._apply_jobs(claim, named, account)
        return numbers

    def _has_number(self, claim: str, number: str) -> bool:
        """Test for a job that the batch system has told us as a claim's, whatever it calls us."""
        tracked = self._claims.get(claim)
        return tracked is not None and tracked.row.number == number

    def _apply_jobs(self, claim: str, jobs: list[BatchJob], account: str) -> None:
        """Apply the listed jobs of one claim."""
        tracked = self._claims.get(claim)
        if tracked is None:  # a table that was lost, or a submission that arrived after all
            row = ClaimRow(claim=claim, processors=0, is_unwanted=True, account=account)
            tracked = self.add(row)
        numbers = [job.number for job in jobs]
        if tracked.row.number not in numbers:
            if tracked.row.end is not None or tracked.row.number:
                self._mark_unwanted(jobs, account)
                return
            self.change(tracked, number=numbers[0])
        own = next(job for job in jobs if job.number == tracked.row.number)
        self._mark_unwanted([job for job in jobs if job is not own], account)
        tracked.missing_since = None
        tracked.is_listed = True
        if tracked.row.end is not None:  # forgotten for so long that it counted as ended
            self._mark_unwanted([own], account)
        else:
            self._apply_job(tracked, own, account)

    def _apply_job(self, tracked: TrackedClaim, own: BatchJob, account: str) -> None:
        """Apply the listed job of a claim that has not ended."""
        is_old = own.state is JobState.QUEUED and tracked.has_started and not own.is_again
        if not is_old:  # the listing is of a moment ago
            tracked.state = own.state
        tracked.is_limited = own.is_limited
        if own.state is JobState.QUEUED:
            tracked.reason = self._explain(own.reason)
        tracked.is_gated = own.is_gated
        if own.processors not in (0, tracked.row.taken or tracked.row.processors):
            self.change(tracked, taken=own.processors)
        if own.is_limited:
            self.limits[account, tracked.row.charged] = (self._clock(), own.reason)
        if own.state is JobState.ENDED:
            self.end(tracked, own)
        elif not tracked.row.is_unwanted:
            self._cancel_hopeless(tracked, own)

    def _cancel_hopeless(self, tracked: TrackedClaim, job: BatchJob) -> None:
        """Cancel a job that can never start, is held, or that the batch system starts again."""
        if job.state is JobState.STUCK:
            verdict = (job.cause, f"it would never start: {self._explain(job.reason)}")
        elif job.state is JobState.HELD:
            verdict = (job.cause, job.reason)
        elif job.is_again:
            verdict = (EndCause.CANCELLED_BY_SITE, "the batch system put it back into its queue")
        else:
            return
        log.warning("claim.withdrawn", claim=tracked.row.claim, reason=verdict[1])
        self.change(tracked, is_unwanted=True, verdict=verdict)

    def _mark_unwanted(self, jobs: list[BatchJob], account: str) -> None:
        """Mark jobs under our name as unwanted: a duplicate submission, or one after the end."""
        for job in jobs:
            if job.state is JobState.ENDED:
                self.unwanted.pop(job.number, None)
            elif job.number not in self.unwanted:
                log.warning("batch.unwanted_job_found", number=job.number, name=job.name)
                self.unwanted[job.number] = account

    def end(self, tracked: TrackedClaim, job: BatchJob | None) -> None:
        """Note the end of a claim, with its record if there is one."""
        row = tracked.row
        if job is None:
            is_ours = row.is_unwanted or not row.number
            cause = EndCause.WITHDRAWN if is_ours else EndCause.EXITED
            exit_status, reason = None, "the batch system does not know it (any more)"
            if row.reservation and tracked.state is JobState.QUEUED and not is_ours:
                cause = EndCause.CANCELLED_BY_SITE
                reason = f"it left the queue, as with the end of its reservation {row.reservation}"
        else:
            cause, exit_status, reason = job.cause, job.exit_status, job.reason
            if row.is_unwanted and cause in CANCELLED:
                cause = EndCause.WITHDRAWN
        if row.verdict is not None:
            cause, reason = row.verdict
        end = (cause, exit_status, reason)
        tracked.state = JobState.ENDED
        self.change(tracked, end=end)
        ended = [claim for claim, other in self._claims.items() if other.row.end is not None]
        for claim in ended[: max(0, len(ended) - ENDED_MAX)]:
            self.forget(claim)
