"""Listings of the batch system, compared with the claims.

- A failed listing proves nothing. While the controller is away no state changes.
- Where claims run as several accounts, an account's listing counts for that account's claims alone.
  The claims of an account that cannot be asked keep their state, and the others' go on.
- A job without listing and record has ended once it has been missing for `missing_s`; one whose
  record cannot be read (an accounting file of years) after `unrecorded_s`. Until then only this
  claim waits.
"""

from __future__ import annotations

import asyncio
import math
from dataclasses import dataclass

from koala.common.runtime.structured_log import get_logger
from koala.errors import LocalManagerError
from koala_agent.lrm.batch.claim_tracking import ClaimRow, TrackedClaim
from koala_agent.lrm.batch.figures.queue_figures import QueueFigures
from koala_agent.lrm.batch.manager_part import ManagerPart, Shared
from koala_agent.lrm.dialect import BatchJob, JobState, job_name
from koala_agent.transport.interface import Command

TRIALS_MAX = 2
"""Accounts with an open circuit that are tried at a time: their commands may hang, and use up
slots."""
LATE_S = 2.0
"""Time after the end of a starter in which its processors are free where nothing follows it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class _PollStart:
    """Begin of a poll, and its number."""

    number: int
    at: float


log = get_logger()


class Listings(ManagerPart):
    """One listing of each account a poll."""

    def __init__(self, shared: Shared, figures: QueueFigures) -> None:
        super().__init__(shared)
        self._figures = figures
        self.unlisted = set(self._settings.accounts)
        """Accounts that are to be listed, whether they have claims or not."""
        self.ends_late = False
        """True where processors of claims that left were not free soon after."""
        self.count = 0
        """Number of polls that have begun."""
        self.look_soon = asyncio.Event()
        """Set when another poll would tell more."""
        self._lock = asyncio.Lock()
        self._last: tuple[int, LocalManagerError | None] = (0, None)
        self._trials = asyncio.Semaphore(TRIALS_MAX)
        self._records_at: dict[str, float] = {}  # next lookup, by account

    async def poll(self, *, may_share_first: bool = False) -> None:
        """Poll: compare one listing of each account with the table.

        Callers that wait for a running poll share the next one, which may see more; those who ask
        about an earlier life alone `may_share_first`. Raises LocalManagerError when our own account
        gets no answer: then the batch system is away.
        """
        is_first = may_share_first and not self._last[0]
        begun_before = 0 if is_first else self.count
        async with self._lock:
            number, trouble = self._last
            if number <= begun_before:
                is_busy = not self._figures.are_known or bool(self._claims.open())
                self._commands.budget.set_busy(self, is_busy=is_busy)
                # Before the poll begins, so that more may share it.
                await self._commands.budget.wait()
                begun = self._begin_poll()
                trouble = await self._poll_accounts(begun)
                self._last = (begun.number, trouble)
            if trouble is not None:
                raise trouble

    async def _poll_accounts(self, begun: _PollStart) -> LocalManagerError | None:
        """List jobs for all accounts; return the trouble of our own."""
        answer = await self._list("", self._dialect.list_all(), since=begun.at)
        own = await self._apply_answer("", answer, begun)
        rest = []
        for account in self._accounts_to_ask():
            listed = [] if isinstance(answer, LocalManagerError) else answer
            jobs = [job for job in listed if job.owner == account]
            if self._are_all_in(jobs, account):
                await self._apply_answer(account, jobs, begun)
            else:  # where the jobs of others are hidden, an account's own listing has them
                rest.append(account)
        command = self._dialect.list_jobs()
        answers = await asyncio.gather(*(self._list(account, command) for account in rest))
        for account, one in zip(rest, answers, strict=True):
            trouble = await self._apply_answer(account, one, begun)
            if trouble is not None:
                self._breaker.open(account, trouble)
        if own is None:
            self._learn_lateness(begun.at)
            self._figures.note_listing(begun.at)
        return own

    def _learn_lateness(self, listed_at: float) -> None:
        """Learn whether processors are free soon after the end of a starter, or long after."""
        for tracked in self._claims.all():
            if tracked.left_at is None or tracked.is_settled:
                continue
            if tracked.row.end is not None:
                tracked.is_settled = True
                self.ends_late = self.ends_late and tracked.was_seen
            elif listed_at - tracked.left_at > LATE_S:
                tracked.was_seen = tracked.is_late = self.ends_late = True

    def _are_all_in(self, jobs: list[BatchJob], account: str) -> bool:
        """Test for a listing that has all open claims of an account, of which nothing else is
        uncertain."""
        numbers = {job.number for job in jobs}
        claims = [one for one in self._claims.open() if one.row.account == account]
        return account not in self.unlisted and all(one.row.number in numbers for one in claims)

    def _accounts_to_ask(self) -> list[str]:
        """Return the other accounts with open or uncertain claims. Those with an open circuit are
        left out, so that the others need not wait for them."""
        open_ = {tracked.row.account for tracked in self._claims.open()}
        unwanted = self._claims.unwanted.values()
        busy = {*self.unlisted, *open_, *unwanted} - self._breaker.troubled
        return sorted(busy - {""})

    def _begin_poll(self) -> _PollStart:
        self.count += 1
        return _PollStart(number=self.count, at=self._clock())

    async def _list(
        self, account: str, command: Command, *, since: float | None = None
    ) -> list[BatchJob] | LocalManagerError:
        try:
            answer = await self._commands.ask(command, account, since=since)
            # In a thread: a cell with 50,000 jobs takes a second, which would block the loop.
            return await asyncio.to_thread(self._dialect.read_jobs, answer)
        except LocalManagerError as error:
            return error

    async def _apply_answer(
        self,
        account: str,
        answer: list[BatchJob] | LocalManagerError,
        begun: _PollStart,
    ) -> LocalManagerError | None:
        """Apply an account's listing; return the error, if there was one."""
        try:
            if isinstance(answer, LocalManagerError):
                return answer
            await self._apply_listing(account, answer, begun)
        except LocalManagerError as error:
            return error
        return None

    async def retry_troubled(self) -> None:
        """Try accounts with an open circuit periodically, beside the polls; a new one at once."""
        while True:
            try:
                async with asyncio.timeout(self._settings.trouble_s):
                    await self._breaker.opened.wait()
            except TimeoutError:
                pass
            self._breaker.opened.clear()
            await asyncio.gather(*map(self._retry, sorted(self._breaker.troubled)))

    async def _retry(self, account: str) -> None:
        async with self._trials:
            begun = self._begin_poll()
            answer = await self._list(account, self._dialect.list_jobs())
        async with self._lock:
            trouble = await self._apply_answer(account, answer, begun)
        if trouble is None:
            self._breaker.close(account)
            self.look_soon.set()
        else:
            self._breaker.open(account, trouble)

    async def _apply_listing(self, account: str, jobs: list[BatchJob], begun: _PollStart) -> None:
        """Compare one account's jobs with its claims. A poll that began before the end of a
        submission proves nothing against it: the submission may have arrived since."""
        self.unlisted.discard(account)
        found = self._claims.apply_listing(account, jobs, owner=account or self._settings.account)
        for tracked in self._claims.all():
            is_submitting = tracked.is_submitting or begun.number <= tracked.submitted_in_poll
            if tracked.row.end is not None or is_submitting or tracked.row.account != account:
                continue
            if tracked.row.number not in found.get(tracked.row.claim, ()):
                await self._reconcile_missing(tracked, begun.at)

    async def _reconcile_missing(self, tracked: TrackedClaim, now: float) -> None:
        """Reconcile a claim that is in no listing: its record decides, or a time limit does. A
        submission that did not arrive (the agent was killed, the controller was away) is forgotten:
        the caller finds the claim unlisted and submits it again."""
        row = tracked.row
        if not row.number and not row.is_unwanted:
            if not row.booking:  # else it is bound to that when it is submitted again
                self._claims.forget(row.claim)
            return
        if tracked.missing_since is None:
            tracked.missing_since = now
        tracked.is_listed = False
        if tracked.left_at is not None:
            self._claims.end(tracked, None)
            return
        record = None
        if row.number and now >= tracked.record_again_at:
            missing_s = now - tracked.missing_since
            tracked.record_again_at = now + max(self._settings.poll_s, missing_s)
            try:
                record = await self._record_of(row)
            except LocalManagerError as error:
                log.warning("batch.record_unknown", claim=row.claim, reason=str(error))
                if now - tracked.missing_since < self._settings.unrecorded_s:
                    return
            if record is not None and record.state is not JobState.ENDED:
                tracked.missing_since = None  # it lives: a listing may be incomplete
                tracked.is_listed = True
                return
        is_dequeued = row.is_unwanted and tracked.state in (JobState.QUEUED, JobState.STUCK)
        is_fresh = now - tracked.missing_since < self._settings.missing_s
        if record is None and not is_dequeued and is_fresh:
            return
        self._claims.end(tracked, record)

    async def _record_of(self, row: ClaimRow) -> BatchJob | None:
        """Look up the accounting record. Raises LocalManagerError, and for a while after a failure
        without a command: each one that hangs would delay the poll by the whole time limit."""
        if self._clock() < self._records_at.get(row.account, -math.inf):
            raise LocalManagerError("records gave no answer a moment ago", transient=True)
        question = self._dialect.record(row.number)
        if question is None:
            return None
        name = job_name(row.claim, scope=self._scope)
        try:
            answer = await self._commands.ask(question, row.account)
            return self._dialect.read_record(answer, number=row.number, name=name)
        except LocalManagerError:
            self._records_at[row.account] = self._clock() + self._settings.trouble_s
            raise
