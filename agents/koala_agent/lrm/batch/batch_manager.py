"""Local manager for a real batch system: one manager for all, with a dialect for each.

Its knowledge has three sources, in this order of trust: its own table (accepted and unwanted
claims), the batch system's listing (by name, so that a job is found after a crash at any instant),
and the accounting record of a job that has left the listing. One poll covers all jobs.

Starters tell starts and ends (`note_start`, `note_left`); listings are for what is silent. So they
are few (`transport.command_budget`): the longer nothing has happened, the longer the pause, and
between two looks the figures follow what happens to our own claims.

- A submission without an answer may or may not have arrived. Its row stays until the next listing
  decides; until then the claim is not submitted again.
- A job of ours that is not wanted is cancelled until it is gone: a late submission, a duplicate
  name, a job that can never start or is started again.
- A job under our name that belongs to another user is ignored.
- Where claims run as several accounts, each command about a claim runs as its account.
- A number is trusted as long as a listing has it under our name: batch systems that lost their
  state, or reached their last number, reuse numbers.
"""

from __future__ import annotations

import asyncio
import math
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

from koala.common.protocol.messages import Resources
from koala.common.protocol.names import AWAY, SILENT
from koala.common.protocol.queue_limits import Times
from koala.common.runtime.clock import boot_id, unix_now
from koala.common.runtime.structured_log import get_logger
from koala.errors import LocalManagerError
from koala_agent.lrm.batch.account_breaker import AccountBreaker, CircuitOpenError
from koala_agent.lrm.batch.batch_settings import BatchSettings
from koala_agent.lrm.batch.bookings import Bookings
from koala_agent.lrm.batch.cancellations import Cancellations
from koala_agent.lrm.batch.claim_tracking import ClaimRow, TrackedClaim, TrackedClaims
from koala_agent.lrm.batch.figures.queue_figures import QueueFigures
from koala_agent.lrm.batch.gatekeeper import SUBMITTED, Gatekeeper
from koala_agent.lrm.batch.limits.queue_knowledge import QueueKnowledge
from koala_agent.lrm.batch.limits.submission_pauses import SubmissionPauses
from koala_agent.lrm.batch.listings import Listings
from koala_agent.lrm.batch.manager_part import ManagerPart, Shared
from koala_agent.lrm.batch.repeated_probe import RepeatedProbe
from koala_agent.lrm.dialect import LATE_S, Dialect, JobState, job_name, script
from koala_agent.lrm.job_table import JobTable
from koala_agent.lrm.launch import check
from koala_agent.lrm.local_manager import (
    Idle,
    Listed,
    OnReport,
    PausedError,
    Placeholder,
    Queued,
    RequestRefusedError,
)
from koala_agent.lrm.site_commands import SiteCommands
from koala_agent.transport.command_budget import CommandBudget
from koala_agent.transport.interface import CommandRunner, SiteAwayError

REASON_S = 2.0
"""Longest time that a withdrawal waits for the reason of a claim's wait."""
BUSY_SHARE = 2 / 3
"""Share of the longest pause that is one while there are claims."""
TESTED_S, TESTED_MAX = 60.0, 1_000
"""Time in which a good request is not tested again, and the number of those that are known."""
BACKOFF = 0.2
"""Pause between two listings, as a share of the time since anything happened."""
SETTLE_S, SETTLING_S = 30.0, 2.0
"""Time after a silence in which a controller that does not know its machines yet may refuse a
request, and the pause before it is tried again then."""
UNBOUNDED = 60_000
"""Commands a minute of a manager without a budget."""

log = get_logger()


class BatchManager(ManagerPart):
    """`LocalManager` over the commands of a batch system."""

    def __init__(
        self,
        settings: BatchSettings,
        dialect: Dialect,
        runner: CommandRunner,
        *,
        on_report: OnReport,
        clock: Callable[[], float],
        budget: CommandBudget | None = None,
        calendar: Callable[[], float] = unix_now,
    ) -> None:
        """Open the job table. Raises JournalError when the state directory cannot be used. Without
        a `budget` its commands are not bounded."""
        self._report = on_report
        self._budget = budget or CommandBudget(UNBOUNDED, clock=clock)
        self._table: JobTable[ClaimRow] = JobTable(
            settings.state_directory,
            ClaimRow,
            boot=boot_id(),
            scope=settings.scope,
            make_room=settings.make_room,
        )
        commands = SiteCommands(runner, self._budget, clock=clock)
        breaker = AccountBreaker(commands)
        self._queues = QueueKnowledge(dialect, breaker, now=clock)
        shared = Shared(
            settings=settings,
            dialect=dialect,
            commands=commands,
            breaker=breaker,
            claims=TrackedClaims(self._table, clock=clock, explain=self._queues.explain),
            scope=self._table.scope,
            clock=clock,
            calendar=calendar,
        )
        super().__init__(shared)
        self._gatekeeper = Gatekeeper(shared)
        self._bookings = Bookings(shared)
        self._figures = QueueFigures(shared, self._queues, self._bookings)
        self._listings = Listings(shared, self._figures)
        self._cancellations = Cancellations(shared)
        self._probe = RepeatedProbe(shared, self._gatekeeper)
        self._pauses = SubmissionPauses(clock, calendar)
        self._tested: dict[Placeholder, float] = {}  # until when a good request counts
        self._happened_at = -math.inf  # the last event that a listing may tell more about
        self._reported_idle: Idle | None = None
        self._opened = asyncio.Event()
        self._started = asyncio.Event()  # the first figures are known, or cannot be had now
        self._closing = asyncio.Event()
        self._reason_lock = asyncio.Lock()
        self._silence = ""  # the reason why the site gives no answers; empty while it does
        self._answering_at = -math.inf  # the end of the last silence

    # The port ---------------------------------------------------------------------------------

    @property
    def starts_after_stop(self) -> bool:
        """True when no other user waits, so that released processors go to our next claim."""
        return not self._silence and not self._figures.has_others_waiting

    @property
    def honours(self) -> tuple[str, ...]:
        return self._dialect.honours

    @property
    def gate(self) -> str:
        return self._gatekeeper.name

    @property
    def books(self) -> str:
        return self._bookings.name

    def times(self, resources: Resources) -> Times:
        times = self._queues.times(resources)
        reserved_s = self._figures.reserved_s(resources.reservation)
        return replace(times, room_s=min(times.room_s, reserved_s))

    def number(self, claim: str) -> str:
        tracked = self._claims.get(claim)
        return "" if tracked is None else tracked.row.number

    async def run(self) -> None:
        self._budget.starting.add(self)
        self._opened.set()
        try:
            async with asyncio.TaskGroup() as group:
                beside = group.create_task(self._listings.retry_troubled())
                polls = group.create_task(self._run_polls(group))
                await self._closing.wait()
                polls.cancel()  # it may wait for its turn in the budget, up to a minute
                beside.cancel()
                self._probe.cancel()
        finally:
            self._note_started()
            self._table.close()

    async def _run_polls(self, group: asyncio.TaskGroup) -> None:
        while True:
            try:
                await self._listings.poll(may_share_first=True)
                await self._gatekeeper.poll()
                await self._bookings.try_to_learn()
                self._report_changes()
                if self._clock() - self._figures.asked_at >= self._figures_due_s():
                    await self._figures.poll()
                self._note_started()
                await self._bookings.poll()
                await self._figures.forecast()
                self._report_idle()
                await self._cancellations.cancel_unwanted()
                self._mark_answering()
                self._probe.start_when_due(group, self._idle_told)
            except LocalManagerError as error:
                self._mark_silent(error)
                self._note_started()
            await self._pause()

    def _note_started(self) -> None:
        self._budget.starting.discard(self)
        self._started.set()

    def _figures_due_s(self) -> float:
        """Return the age at which figures are asked for again: sooner after an event."""
        longest_s = self._longest_pause_s()
        has_news = self._happened_at > self._figures.asked_at and self._claims.open()
        return longest_s / 2 if has_news or self._figures.is_settling else longest_s

    async def opened(self) -> None:
        """See `LocalManager`. The table is complete at once. The batch system is polled only when
        its listing is needed, so that a controller that is away delays nothing else."""
        await self._opened.wait()

    async def close(self, *, kill: bool = False) -> None:
        if kill:
            for tracked in self._claims.all():
                await self._withdraw(tracked.row.claim)
            while self._claims.open():
                await self._listings.poll()
                await self._cancellations.cancel_unwanted()
                await asyncio.sleep(self._settings.poll_s / 10)
        self._closing.set()

    async def submit(self, placeholder: Placeholder) -> None:
        claim = placeholder.claim
        check(placeholder, self._settings.processors)
        known = self._claims.get(claim)
        if known is None or known.needs_submission():
            self._pauses.check(placeholder)
            if placeholder.is_gated:
                self._check_ageing(claim)
        if placeholder.is_gated:
            await self._gatekeeper.check()
        reserved_at = await self._bookings.reserved_at(placeholder)
        tracked = self._claims.get(claim)
        if tracked is not None and tracked.needs_submission():
            account = tracked.row.account
            self._breaker.check(account)
            await self._listings.poll()  # sent before, and never answered: a listing knows
            self._breaker.check(account)
            tracked = self._claims.get(claim)
        gate = SUBMITTED if placeholder.is_gated else ""
        if tracked is None:
            row = ClaimRow(
                claim=claim,
                processors=placeholder.processors,
                account=placeholder.account,
                gpus=placeholder.resources.gpus or 0,
                is_gated=placeholder.is_gated,
                gate=gate,
                native=placeholder.resources.native or "",
                charged=placeholder.resources.project or placeholder.resources.qos or "",
                queue=placeholder.resources.queue or "",
                begins_at=placeholder.begins_at,
                reserved_at=reserved_at,
                reservation=placeholder.resources.reservation or "",
                ends_at=placeholder.begins_at + placeholder.time_limit_s + LATE_S,
            )
            tracked = self._claims.add(row)
        elif not tracked.needs_submission():
            return
        else:
            self._claims.change(tracked, is_gated=placeholder.is_gated, gate=gate)
        tracked.is_submitting = True
        try:
            await self._send(tracked, placeholder)
        finally:
            tracked.is_submitting = False
            tracked.submitted_in_poll = self._listings.count
            self._note_event()

    def _check_ageing(self, claim: str) -> None:
        """Refuse a further claim of a component that would gather no age behind the others, and
        may take that of another job's first. Raises RequestRefusedError."""
        waiting = [one.row.claim for one in self._claims.open() if one.is_waiting()]
        component = claim.rpartition("/")[0]
        if len(waiting) >= self._queues.ageing and any(
            one.rpartition("/")[0] == component and one != claim for one in waiting
        ):
            raise RequestRefusedError(
                f"{self._queues.ageing:.0f} jobs of the account gather age in the queue, and"
                f" {len(waiting)} wait: a further one of this component would gather none"
            )

    async def set_gate(self, claim: str, *, is_gated: bool) -> None:
        """See `LocalManager`. What fails is tried again with the polls."""
        tracked = self._claims.get(claim)
        if tracked is not None:
            self._figures.expect_new_places()
            await self._gatekeeper.set(tracked, is_gated=is_gated)
            self._note_event()

    def note_start(self, claim: str) -> None:
        """See `LocalManager`."""
        tracked = self._claims.get(claim)
        if tracked is not None and tracked.state is JobState.QUEUED:
            tracked.state = JobState.RUNNING
            tracked.has_started = True
            self._note_event()

    def note_left(self, claim: str, *, is_gone: bool) -> None:
        """See `LocalManager`. Nobody waits for what the batch system does then (an epilog)."""
        tracked = self._claims.get(claim)
        if tracked is None or tracked.row.end is not None or tracked.left_at is not None:
            return
        tracked.state = JobState.RUNNING
        tracked.left_at, tracked.is_gone = self._clock(), is_gone
        tracked.is_late = self._listings.ends_late
        asyncio.get_running_loop().call_soon(self._report_left)
        self._note_event()

    def _report_left(self) -> None:
        self._report_changes()
        self._report_idle()

    def _note_event(self) -> None:
        """Note that something happened that a listing may tell more about: look soon."""
        self._happened_at = self._clock()
        self._budget.set_busy(self._listings, is_busy=True)
        self._listings.look_soon.set()

    async def withdraw(self, claim: str) -> None:
        await self._ask_reason(claim)
        await self._withdraw(claim)

    async def _withdraw(self, claim: str) -> None:
        tracked = self._claims.get(claim)
        if tracked is None or tracked.row.end is not None:
            return
        if not tracked.row.is_unwanted:
            self._claims.change(tracked, is_unwanted=True)
        self._note_event()  # an unlisted job is cancelled when a poll lists it
        if tracked.is_listed:
            await self._cancellations.cancel(tracked)

    async def _ask_reason(self, claim: str) -> None:
        """Ask for the reason why a claim has waited, before its job is gone. Not for each of many:
        while one question is asked, other claims are withdrawn without. A question that fails says
        nothing about the account, so it opens no circuit."""
        tracked = self._claims.get(claim)
        if tracked is None or not tracked.is_waiting() or self._reason_lock.locked():
            return
        question = self._dialect.explain(tracked.row.number)
        if question is None:
            return
        account = tracked.row.account
        async with self._reason_lock:
            try:
                self._breaker.check(account)
                async with asyncio.timeout(REASON_S):
                    answer = await self._commands.ask(question.command, account)
                tracked.waited_for = question.read(answer)
            except (LocalManagerError, TimeoutError) as error:
                log.debug("batch.reason_unknown", claim=tracked.row.claim, reason=str(error))

    async def listing(self) -> tuple[Listed, ...]:
        await self._listings.poll(may_share_first=True)
        return tuple(one.listed() for one in self._claims.all() if not one.lacks_job())

    async def find(self, claim: str) -> Listed | None:
        """See `LocalManager`."""
        await self._listings.poll()
        tracked = self._claims.get(claim)
        return None if tracked is None or tracked.lacks_job() else tracked.listed()

    async def idle(self) -> Idle:
        """See `LocalManager`. Only the polls ask; between two of them the figures include what has
        happened to our claims. While a controller is away, or its commands are, nothing is
        startable: jobs that may run elsewhere should. What is returned counts as reported: the
        polls report each difference from it."""
        await self._started.wait()
        self._reported_idle = self._idle_told()
        return self._reported_idle

    # Doing ------------------------------------------------------------------------------------

    async def _send(self, tracked: TrackedClaim, placeholder: Placeholder) -> None:
        self._claims.save(tracked)  # before the batch system hears of it
        account = placeholder.account
        if not account:
            await asyncio.to_thread(placeholder.directory.mkdir, parents=True, exist_ok=True)
        name = job_name(placeholder.claim, scope=self._scope)
        text = script(placeholder, scope=self._scope)
        may_be_queued = False
        may_wait = self._calendar() < placeholder.begins_at and self._bookings.is_giving_back
        try:
            placeholder = await self._bookings.book(tracked, placeholder, name)
            await self._test(placeholder, name=name, script=text)
            command = self._dialect.submit(placeholder, name=name, script=text)
            may_be_queued = True
            number = self._dialect.read_submitted(await self._breaker.submit(command, account))
        except LocalManagerError as error:
            self._tested.clear()
            is_settling = self._clock() - self._answering_at < SETTLE_S
            if (is_settling or may_wait) and isinstance(error, RequestRefusedError):
                self._claims.forget(placeholder.claim)
                raise PausedError(str(error), again_s=SETTLING_S) from error
            if error.transient:
                self._listings.unlisted.add(account)  # a poll finds out whether the account answers
            may_be_queued = may_be_queued or bool(tracked.row.booking)
            was_asked = may_be_queued and not isinstance(error, CircuitOpenError)
            if not (error.transient and was_asked):
                self._claims.forget(placeholder.claim)
            if not isinstance(error, CircuitOpenError):
                self._pauses.note_failure(placeholder, error)
            raise
        self._pauses.note_success(placeholder)
        if not tracked.row.number:
            self._claims.change(tracked, number=number)
        tracked.is_listed = True
        if tracked.row.is_unwanted:
            await self._cancellations.cancel(tracked)
        await self._gatekeeper.settle(tracked)

    async def _test(self, placeholder: Placeholder, *, name: str, script: str) -> None:
        """Test a request, unless the same one was good a moment ago. Raises LocalManagerError."""
        request, now = _request(placeholder), self._clock()
        question = self._dialect.ask(placeholder, name=name, script=script)
        if question is None or now < self._tested.get(request, -math.inf):
            return
        answer = await self._breaker.submit(question, placeholder.account)
        self._dialect.read_asked(answer)
        if len(self._tested) >= TESTED_MAX:
            self._tested.clear()
        self._tested[request] = now + TESTED_S

    # Telling ----------------------------------------------------------------------------------

    def _report_changes(self) -> None:
        """Report changed claims."""
        for tracked in self._claims.all():
            listed = tracked.listed()
            if tracked.reported is not type(listed):
                tracked.reported = type(listed)
                self._happened_at = self._clock()
                if not isinstance(listed, Queued):
                    self._report(listed)

    def _report_idle(self) -> None:
        idle = self._idle_told()
        told = self._reported_idle
        if told is None or (idle, idle.commands) != (told, told.commands):
            self._reported_idle = idle
            self._report(idle)

    def _idle_told(self) -> Idle:
        if self._silence:
            idle = replace(self._figures.none_idle(), trouble=self._silence)
        else:
            troubles = (
                *(self._breaker.summary, self._gatekeeper.trouble),
                *(self._bookings.trouble, self._pauses.summary),
            )
            idle = replace(
                self._figures.idle(is_shut=self._pauses.is_shut("")),
                trouble="; ".join(filter(None, troubles)),
                gate_tried=self._gatekeeper.tried,
            )
            idle = self._probe.without(idle)
        return replace(idle, commands=self._budget.counts)

    def _mark_silent(self, error: LocalManagerError) -> None:
        silence = f"{SILENT} ({error})"
        if isinstance(error, SiteAwayError):
            silence = f"{AWAY}: {error}"
        if silence == self._silence:
            return
        if not self._silence:
            self._happened_at = self._clock()
        log.warning("batch.not_listed", reason=str(error))
        self._silence = silence
        self._report_idle()

    def _mark_answering(self) -> None:
        if self._silence:
            log.info("batch.recovered")
            self._silence = ""
            self._answering_at = self._clock()
            self._breaker.opened.set()  # retry open circuits now
            self._report_idle()

    async def _pause(self) -> None:
        """Wait for the next poll: at once after an event (the budget spaces them), and the longer,
        the longer there was none. Claims that run, and tell of themselves, are no reason for it."""
        settings = self._settings
        pause_s = self._longest_pause_s() / (2 if self._figures.is_settling else 1)
        if self._is_unsettled():
            quiet_s = self._clock() - self._happened_at
            pause_s = min(pause_s, max(settings.poll_s, quiet_s * BACKOFF))
        if self._listings.look_soon.is_set():
            self._listings.look_soon.clear()
            pause_s = min(pause_s, settings.poll_s / 5)
        try:
            async with asyncio.timeout(pause_s):
                await self._listings.look_soon.wait()
        except TimeoutError:
            pass

    def _longest_pause_s(self) -> float:
        return self._settings.figures_s * (BUSY_SHARE if self._claims.open() else 1.0)

    def _is_unsettled(self) -> bool:
        """Test for anything that only a listing can tell: a start that was not told yet, an end."""
        return bool(
            self._silence
            or self._claims.unwanted
            or self._listings.unlisted - self._breaker.troubled
            or any(one.is_unsettled() for one in self._claims.open())
        )


def _request(placeholder: Placeholder) -> Placeholder:
    """Return what a batch system decides by whether it takes a placeholder."""
    return replace(
        placeholder, claim="", argv=(), environment=(), directory=Path(), body="", may_kill=False
    )
