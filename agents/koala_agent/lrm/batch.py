"""A real batch system behind the port: one manager for all, a dialect each.

What it knows comes from three places, in this order of trust: its own table (which claims it was
asked for, and which it wants gone), the batch system's listing (by name, so that a job is found
whatever crashed when), and the accounting record of what has left the listing. One poll looks at
all jobs; the starter's own word arrives long before it, so polls only repair.

- A listing that fails says nothing. While the controller is away nothing changes its state.
- A submission without an answer may or may not have been heard. Its row stays; the next listing
  decides, and until it has, the claim is not submitted a second time.
- A job of ours that nobody wants (a submission that arrived after all, a second one under the same
  name, one that can never start or is started again) is taken out, until it is gone.
- A job under our name that is another user's is none of ours.
- Where claims run as several accounts, each command about one is run as its account, and what an
  account's listing says counts for that account's claims alone.
- A job that is in no listing and has no record has ended, once it has been missing for `missing_s`.
"""

from __future__ import annotations

import asyncio
import math
from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path

import msgspec
import structlog

from koala.errors import LocalManagerError
from koala_agent.lrm.dialect import BatchJob, Dialect, Figures, JobState, claim_of, job_name, script
from koala_agent.lrm.known import Known, Row, idle_of, others_waiting
from koala_agent.lrm.launch import check
from koala_agent.lrm.port import EndCause, Ended, Idle, Listed, Placeholder, Queued, Running, Tell
from koala_agent.lrm.processes import boot_id
from koala_agent.lrm.shell import Answer, Command, Shell
from koala_agent.lrm.table import JobTable

ENDED_MAX = 10_000
"""Ended claims that are remembered, so that none of them is submitted again."""

log = structlog.get_logger()


@dataclass(frozen=True, slots=True, kw_only=True)
class BatchSettings:
    """How a batch system is driven; times in seconds.

    `processors` is the most that claims and figures may count, `missing_s` how long a job may be
    in no listing and no record before it counts as ended: the record of an end comes late. Jobs of
    other users than `account` are foreign, whatever their names; empty: the listing has no others.
    `limited_s` is for how long a user who was refused more counts as having all that is allowed.
    `accounts` are those that claims may run as, besides the agent's own. `make_room` is asked when
    the table of jobs finds none on its disk.
    """

    processors: int
    state_directory: Path
    scope: str
    poll_s: float = 1.0
    figures_s: float = 5.0
    missing_s: float = 10.0
    limited_s: float = 60.0
    account: str = ""
    accounts: tuple[str, ...] = ()
    make_room: Callable[[], bool] = lambda: False


class BatchManager:
    """A `LocalManager` over the commands of a batch system."""

    def __init__(
        self,
        settings: BatchSettings,
        dialect: Dialect,
        shell: Shell,
        *,
        tell: Tell,
        clock: Callable[[], float],
    ) -> None:
        """Raises LocalManagerError when the state directory cannot be used."""
        self._settings = settings
        self._dialect = dialect
        self._shell = shell
        self._tell = tell
        self._clock = clock
        self._table: JobTable[Row] = JobTable(
            settings.state_directory,
            Row,
            boot=boot_id(),
            scope=settings.scope,
            make_room=settings.make_room,
        )
        self._known = {row.claim: Known(row=row) for row in self._table.load()}
        self._unwanted: dict[str, str] = {}  # numbers of jobs that are no claim's, and accounts
        self._unlisted = {"", *settings.accounts}  # accounts whose jobs were never listed
        for name in {known.row.account for known in self._known.values()} - self._unlisted:
            log.warning("account.not_configured", account=name)
        self._figures: Figures | None = None
        self._told_idle: Idle | None = None
        self._opened = asyncio.Event()
        self._closing = asyncio.Event()
        self._hurry = asyncio.Event()
        self._looking = asyncio.Lock()
        self._is_silent = False
        self._limited_at = -math.inf

    # The port ---------------------------------------------------------------------------------

    @property
    def starts_after_stop(self) -> bool:
        """No other user waits, so that what a claim gives back goes to the next one of ours."""
        if self._figures is None or self._is_silent:
            return False
        return others_waiting(self._figures, self._known.values()) == 0

    @property
    def honours(self) -> tuple[str, ...]:
        """See `LocalManager`."""
        return self._dialect.honours

    def number(self, claim: str) -> str:
        """See `LocalManager`."""
        known = self._known.get(claim)
        return "" if known is None else known.row.number

    async def run(self) -> None:
        """See `LocalManager`."""
        self._opened.set()
        figures_at = -math.inf
        try:
            while not self._closing.is_set():
                try:
                    await self._look()
                    is_changed = self._tell_changes()
                    if is_changed or self._clock() - figures_at >= self._settings.figures_s:
                        figures_at = self._clock()
                        await self._look_at_figures()
                        self._tell_idle()
                    await self._clear()
                    self._hear()
                except LocalManagerError as error:
                    self._miss(error)
                await self._pause()
        finally:
            self._table.close()

    async def opened(self) -> None:
        """See `LocalManager`. The table is what an earlier run left; the batch system is asked when
        somebody wants its listing, so that a controller that is away delays nothing else."""
        await self._opened.wait()

    async def close(self, *, kill: bool = False) -> None:
        """See `LocalManager`."""
        if kill:
            for known in list(self._known.values()):
                await self.withdraw(known.row.claim)
            while any(known.row.end is None for known in self._known.values()):
                await self._look()
                await self._clear()
                await asyncio.sleep(self._settings.poll_s / 10)
        self._closing.set()
        self._hurry.set()

    async def submit(self, placeholder: Placeholder) -> None:
        """See `LocalManager`."""
        claim = placeholder.claim
        check(placeholder, self._settings.processors)
        known = self._known.get(claim)
        if known is not None and not known.is_settled():
            await self._look()  # sent before, and never answered: a listing knows
            known = self._known.get(claim)
        if known is None:
            row = Row(claim=claim, processors=placeholder.processors, account=placeholder.account)
            known = Known(row=row)
            self._known[claim] = known
        elif known.is_settled():
            return
        known.is_asked = True
        try:
            await self._send(known, placeholder)
        finally:
            known.is_asked = False

    async def withdraw(self, claim: str) -> None:
        """See `LocalManager`."""
        known = self._known.get(claim)
        if known is None or known.row.end is not None:
            return
        self._change(known, is_unwanted=True)
        if known.row.number:
            await self._cancel(known.row.number, known.row.account)
        self._hurry.set()

    async def listing(self) -> tuple[Listed, ...]:
        """See `LocalManager`."""
        await self._look()
        return tuple(self._listed(known) for known in self._known.values())

    async def idle(self) -> Idle:
        """See `LocalManager`. Asked anew, because what is told must include all claims so far.
        While a controller is away nothing starts: jobs that may go elsewhere should."""
        try:
            await self._look()
            await self._look_at_figures()
        except LocalManagerError as error:
            if self._figures is None or not error.transient:
                raise
            self._miss(error)
        return self._idle_now()

    # Looking ----------------------------------------------------------------------------------

    async def _ask(self, command: Command, account: str = "") -> Answer:
        return await self._shell.run(command, account)

    async def _look(self) -> None:
        """One listing, compared with what is known. Those who wait for one under way make another:
        it may have begun before what they want to see."""
        async with self._looking:
            began_at = self._clock()
            asked = {claim for claim, known in self._known.items() if known.is_asked}
            async with asyncio.TaskGroup() as group:
                listing = {
                    account: group.create_task(self._list(account))
                    for account in self._accounts_to_ask()
                }
            trouble: LocalManagerError | None = None
            for account, task in listing.items():
                answer = task.result()
                if isinstance(answer, LocalManagerError):
                    trouble = answer
                else:
                    await self._look_through(account, answer, asked, began_at)
            if trouble is not None:
                raise trouble

    def _accounts_to_ask(self) -> list[str]:
        """Our own, or those of which something is known, or nothing for sure."""
        settings = self._settings
        if not settings.accounts:
            return [""]
        open_ = {known.row.account for known in self._known.values() if known.row.end is None}
        busy = {*self._unlisted, *open_, *self._unwanted.values()}
        return [account for account in ("", *settings.accounts) if account in busy]

    async def _list(self, account: str) -> list[BatchJob] | LocalManagerError:
        try:
            return self._dialect.read_jobs(await self._ask(self._dialect.list_jobs(), account))
        except LocalManagerError as error:
            return error

    async def _look_through(
        self, account: str, jobs: list[BatchJob], asked: set[str], began_at: float
    ) -> None:
        """One account's jobs, compared with what is known of its claims."""
        self._unlisted.discard(account)
        owner = account or self._settings.account
        found: dict[str, list[BatchJob]] = {}
        for job in jobs:
            claim = claim_of(job.name, scope=self._table.scope)
            if claim is not None and job.owner in ("", owner or job.owner):
                found.setdefault(claim, []).append(job)
        listed = {job.number for job in jobs}
        self._unwanted = {
            n: whose for n, whose in self._unwanted.items() if n in listed or whose != account
        }
        for claim, ours in found.items():
            known = self._known.get(claim)
            if known is None or known.row.account == account:
                self._take(claim, ours, account)
        for claim, known in list(self._known.items()):
            is_open = known.row.end is None and not known.is_asked and claim not in asked
            if claim not in found and is_open and known.row.account == account:
                await self._miss_job(known, began_at)

    def _take(self, claim: str, jobs: list[BatchJob], account: str) -> None:
        """What the listing says of one claim."""
        known = self._known.get(claim)
        if known is None:  # a table that was lost, or a submission that arrived after all
            row = Row(claim=claim, processors=0, is_unwanted=True, account=account)
            known = Known(row=row)
            self._known[claim] = known
        numbers = [job.number for job in jobs]
        if known.row.number not in numbers:
            if known.row.end is not None or known.row.number:
                self._refuse(jobs, account)
                return
            self._change(known, number=numbers[0])
        own = next(job for job in jobs if job.number == known.row.number)
        self._refuse([job for job in jobs if job is not own], account)
        known.missing_since = None
        if known.row.end is not None:
            return
        known.state = own.state
        known.is_limited = own.is_limited
        if own.is_limited:
            self._limited_at = self._clock()
        if own.state is JobState.ENDED:
            self._end(known, own)
        elif not known.row.is_unwanted:
            self._judge(known, own)

    def _judge(self, known: Known, job: BatchJob) -> None:
        """Takes out what never starts, and what the batch system starts again."""
        if job.state is JobState.STUCK:
            verdict = (job.cause, f"it would never start: {job.reason}")
        elif job.is_again:
            verdict = (EndCause.CANCELLED_BY_SITE, "the batch system put it back into its queue")
        else:
            return
        log.warning("claim.taken_out", claim=known.row.claim, reason=verdict[1])
        self._change(known, is_unwanted=True, verdict=verdict)

    def _refuse(self, jobs: list[BatchJob], account: str) -> None:
        """Jobs under our name that are no claim's: two submissions, or one after the end."""
        for job in jobs:
            if job.state is JobState.ENDED:
                self._unwanted.pop(job.number, None)
            elif job.number not in self._unwanted:
                log.warning("batch.double_found", number=job.number, name=job.name)
                self._unwanted[job.number] = account

    async def _miss_job(self, known: Known, now: float) -> None:
        """A claim that is in no listing: a record says how it ended, or time does. A submission
        that did not arrive (the agent was killed, the controller was away) was none: whoever wants
        the claim finds it unlisted and submits it again."""
        row = known.row
        if not row.number and not row.is_unwanted:
            del self._known[row.claim]
            self._table.forget(row.claim)
            return
        if known.missing_since is None:
            known.missing_since = now
        record = None
        if row.number:
            name = job_name(row.claim, scope=self._table.scope)
            answer = await self._ask(self._dialect.record(row.number), row.account)
            record = self._dialect.read_record(answer, number=row.number, name=name)
            if record is not None and record.state is not JobState.ENDED:
                known.missing_since = None  # it lives: a listing may be incomplete
                return
        is_dequeued = row.is_unwanted and known.state in (JobState.QUEUED, JobState.STUCK)
        is_fresh = now - known.missing_since < self._settings.missing_s
        if record is None and not is_dequeued and is_fresh:
            return
        self._end(known, record)

    def _end(self, known: Known, job: BatchJob | None) -> None:
        row = known.row
        if job is None:
            is_ours = row.is_unwanted or not row.number
            cause = EndCause.WITHDRAWN if is_ours else EndCause.EXITED
            exit_status, reason = None, "the batch system does not know it (any more)"
        else:
            cause, exit_status, reason = job.cause, job.exit_status, job.reason
            if row.is_unwanted and cause is EndCause.CANCELLED_BY_SITE:
                cause = EndCause.WITHDRAWN
        if row.verdict is not None:
            cause, reason = row.verdict
        end = (cause, exit_status, reason)
        known.state = JobState.ENDED
        self._change(known, end=end)
        ended = [claim for claim, other in self._known.items() if other.row.end is not None]
        for claim in ended[: max(0, len(ended) - ENDED_MAX)]:
            del self._known[claim]
            self._table.forget(claim)

    async def _look_at_figures(self) -> None:
        commands = self._dialect.figures()
        answers = tuple([await self._ask(command) for command in commands])
        self._figures = self._dialect.read_figures(answers)

    # Doing ------------------------------------------------------------------------------------

    async def _send(self, known: Known, placeholder: Placeholder) -> None:
        self._save(known)  # before the batch system hears of it
        account = placeholder.account
        if not account:
            await asyncio.to_thread(placeholder.directory.mkdir, parents=True, exist_ok=True)
        scope = self._table.scope
        name, text = job_name(placeholder.claim, scope=scope), script(placeholder, scope=scope)
        try:
            question = self._dialect.ask(placeholder, name=name, script=text)
            if question is not None:
                self._dialect.read_asked(await self._ask(question, account))
            command = self._dialect.submit(placeholder, name=name, script=text)
            number = self._dialect.read_submitted(await self._ask(command, account))
        except LocalManagerError as error:
            if not error.transient:  # it was not queued, for sure
                del self._known[placeholder.claim]
                self._table.forget(placeholder.claim)
            raise
        if not known.row.number:
            self._change(known, number=number)
        if known.row.is_unwanted:
            await self._cancel(number, account)
        self._hurry.set()

    async def _cancel(self, number: str, account: str) -> None:
        self._dialect.read_withdrawn(await self._ask(self._dialect.withdraw(number), account))

    async def _clear(self) -> None:
        """What is unwanted and still there is withdrawn once more."""
        for known in list(self._known.values()):
            row = known.row
            if row.is_unwanted and row.end is None and row.number:
                await self._cancel(row.number, row.account)
        for number, account in list(self._unwanted.items()):
            await self._cancel(number, account)

    # Telling ----------------------------------------------------------------------------------

    def _listed(self, known: Known) -> Listed:
        claim = known.row.claim
        if known.row.end is not None:
            cause, exit_status, reason = known.row.end
            return Ended(claim=claim, cause=cause, exit_status=exit_status, reason=reason)
        if known.state in (JobState.QUEUED, JobState.STUCK):
            return Queued(claim=claim)
        return Running(claim=claim)

    def _tell_changes(self) -> bool:
        """Whether there were any."""
        is_changed = False
        for known in list(self._known.values()):
            listed = self._listed(known)
            if known.told is not type(listed):
                known.told = type(listed)
                is_changed = True
                if not isinstance(listed, Queued):
                    self._tell(listed)
        return is_changed

    def _idle_now(self) -> Idle:
        assert self._figures is not None
        known = self._known.values()
        idle = idle_of(self._figures, known, allowed=self._settings.processors)
        if self._is_silent:
            return replace(idle, idle=0, startable=0)
        is_limited = self._clock() - self._limited_at < self._settings.limited_s
        return replace(idle, startable=0) if is_limited else idle

    def _tell_idle(self) -> None:
        if (idle := self._idle_now()) != self._told_idle:
            self._told_idle = idle
            self._tell(idle)

    def _miss(self, error: LocalManagerError) -> None:
        if self._is_silent:
            return
        log.warning("batch.silent", reason=str(error))
        self._is_silent = True
        if self._figures is not None:
            self._tell_idle()

    def _hear(self) -> None:
        if self._is_silent:
            log.info("batch.answers_again")
            self._is_silent = False
            self._tell_idle()

    async def _pause(self) -> None:
        """Until the next poll; sooner after a change that we made ourselves."""
        has_work = any(known.row.end is None for known in self._known.values())
        pause_s = self._settings.poll_s if has_work else self._settings.figures_s
        if self._hurry.is_set():
            self._hurry.clear()
            pause_s = min(pause_s, self._settings.poll_s / 5)
        try:
            async with asyncio.timeout(pause_s):
                await self._hurry.wait()
        except TimeoutError:
            pass

    def _change(self, known: Known, **changes: object) -> None:
        known.row = msgspec.structs.replace(known.row, **changes)
        self._save(known)

    def _save(self, known: Known) -> None:
        self._table.save(known.row.claim, known.row)
