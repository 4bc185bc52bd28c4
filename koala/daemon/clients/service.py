"""What clients ask: the Koala service. Every answer is taken in the pump's turn and given after its
commit, so nobody sees what a crash could take back.

A document's schema is in docs/api.md.
"""

from __future__ import annotations

import asyncio
import math
from collections.abc import Callable, Coroutine, Iterable, Sequence
from contextlib import aclosing
from dataclasses import dataclass
from functools import wraps
from typing import Any, TypeAlias, TypeVar

import grpc
import msgspec

from koala.core.eviction import alone
from koala.core.model.events import (
    JobCancelRequested,
    ReplicaRemoved,
    SiteDeclaredLost,
    SiteDrained,
    SiteResumed,
)
from koala.core.model.job import TERMINAL, Cancelled
from koala.core.model.values import JobId, SiteName, UserName
from koala.core.scheduler import Scheduler
from koala.daemon.auth.access_rules import Caller, caller_of_call
from koala.daemon.auth.enrolment_service import Registrar
from koala.daemon.auth.interceptor import abort
from koala.daemon.clients.archive_queries import ArchiveQueries, owner_wanted
from koala.daemon.clients.event_feed import CutError, EventFeed
from koala.daemon.clients.listing import Listing, damaged_picture
from koala.daemon.clients.logs import Logs, LogsWanted
from koala.daemon.clients.outputs import Outputs, OutputsWanted
from koala.daemon.clients.site_status import SiteStatus
from koala.daemon.clients.submit_service import LOT, SubmitService
from koala.daemon.event_loop import EventLoop
from koala.daemon.group_commit import BatchContext, read_only_batch
from koala.daemon.quotas import ConcurrencyQuota, FairQueue
from koala.daemon.storage.archive import ArchiveQuery, not_as_archived
from koala.daemon.storage.journal import Journal
from koala.daemon.storage.records import Notice
from koala.errors import (
    ExhaustedError,
    KoalaError,
    RejectedError,
    SpecError,
    UnknownJobError,
    UnknownSiteError,
)
from koala.protocol.versions import PROTOCOL
from koala.views.accounting import By, Period, Report
from koala.views.documents import files_picture, whole_picture
from koala.views.explain import why
from koala.wire.status import from_submitted
from koala.wire.v1 import koala_pb2 as pb
from koala.wire.v1.koala_pb2_grpc import KoalaServicer

SUBMISSIONS_MAX = 1_000
WRITE_S_MAX = 60.0  # for one notice: a watcher that takes nothing for so long is cut
SITE_VERBS = ("drain", "resume", "lost")
CANCELS_MAX = 10_000
REPORT_JOBS_MAX = 50_000  # of those that have left the state, in a report
PAST_JOBS_MAX = 10_000  # the newest of those that have left the state, in a list
_ENDS = tuple(phase.__name__ for phase in TERMINAL)

Context: TypeAlias = "grpc.aio.ServicerContext[Any, Any]"
Request = TypeVar("Request")
Reply = TypeVar("Reply")
Self = TypeVar("Self")
T = TypeVar("T")


def _answering(
    method: Callable[[Self, Request, Context], Coroutine[Any, Any, Reply]],
) -> Callable[[Self, Request, Context], Coroutine[Any, Any, Reply]]:
    """A call whose errors become statuses."""

    @wraps(method)
    async def call(self: Self, request: Request, context: Context) -> Reply:
        try:
            return await method(self, request, context)
        except KoalaError as error:
            await abort(context, error)
            raise AssertionError("abort returned") from error

    return call


@dataclass(frozen=True, slots=True, kw_only=True)
class Parts:
    """The parts of the daemon that are asked."""

    scheduler: Scheduler
    pump: EventLoop
    notices: EventFeed
    standing: SiteStatus
    logs: Logs
    outputs: Outputs
    registrar: Registrar
    journal: Journal
    past: ArchiveQueries
    seats: ConcurrencyQuota
    turnstile: FairQueue
    submitting: SubmitService


class Service(KoalaServicer):
    """The calls, one method each. Their names are gRPC's."""

    def __init__(
        self,
        parts: Parts,
        *,
        version: str,
        metrics: Callable[[Scheduler], dict[str, Any]],
    ) -> None:
        self._scheduler = parts.scheduler
        self._pump = parts.pump
        self._notices = parts.notices
        self._standing = parts.standing
        self._logs = parts.logs
        self._outputs = parts.outputs
        self._registrar = parts.registrar
        self._version = version
        self._journal = parts.journal
        self._past = parts.past
        self._seats = parts.seats
        self._turnstile = parts.turnstile
        self._metrics = metrics
        self._submitting = parts.submitting

    @_answering
    async def Hello(self, _: pb.HelloRequest, __: Context) -> pb.HelloReply:  # noqa: N802
        epoch = await self._pump.ask(lambda turn: turn.scheduler.epoch)
        caller = caller_of_call()
        return pb.HelloReply(
            protocol=PROTOCOL,
            version=self._version,
            epoch=epoch,
            user=caller.name,
            role=caller.role.value,
        )

    # --- submit and cancel ------------------------------------------------------------------------

    @_answering
    async def Submit(self, request: pb.SubmitRequest, _: Context) -> pb.SubmitReply:  # noqa: N802
        if len(request.submissions) > SUBMISSIONS_MAX:
            count = len(request.submissions)
            raise SpecError(f"{count} submissions in one call: allowed are {SUBMISSIONS_MAX}")
        results = await self._submitting.take(
            request.submissions, caller_of_call().name, is_dry_run=request.dry_run
        )
        errors = [from_submitted(result) for result in results]
        if errors and all(isinstance(error, ExhaustedError) for error in errors):
            assert errors[0] is not None
            raise errors[0]
        return pb.SubmitReply(results=results)

    @_answering
    async def Cancel(self, request: pb.CancelRequest, _: Context) -> pb.CancelReply:  # noqa: N802
        by = caller_of_call()
        if len(request.jobs) > CANCELS_MAX:
            count = len(request.jobs)
            raise SpecError(f"{count} jobs in one call: allowed are {CANCELS_MAX}")

        results: list[pb.Cancelled] = []
        for first in range(0, len(request.jobs), LOT):
            lot = request.jobs[first : first + LOT]

            def cancel(turn: BatchContext, lot: Sequence[str] = lot) -> list[pb.Cancelled]:
                return [_cancel(turn, JobId(job), by) for job in lot]

            results += [
                result if result.phase else await self._cancel_past(result, by)
                for result in await self._pump.ask(cancel)
            ]
        return pb.CancelReply(results=results)

    async def _cancel_past(self, result: pb.Cancelled, by: Caller) -> pb.Cancelled:
        """What is said of a job that has left the state: it is over."""
        past = await self._journal.job(result.job)
        if past is None:
            return result
        return _cancel(read_only_batch(alone(past), past.submitted_at), past.id, by)

    # --- queries ----------------------------------------------------------------------------------

    @_answering
    async def List(self, request: pb.ListRequest, _: Context) -> pb.Document:  # noqa: N802
        caller = caller_of_call()
        listing = Listing.of(request, caller)
        found, next_after = await listing.read(self._pump)
        if request.past and not 0 < request.last <= len(found):
            found = [*await self._older(listing, found), *found]
        return _document({"jobs": found[-request.last :], "next": next_after})

    async def _older(
        self, listing: Listing, found: Sequence[dict[str, Any]]
    ) -> list[dict[str, Any]]:
        """Those of the archive, in the order of their ends."""
        caller = listing.caller
        known = {picture["job"] for picture in found}
        wanted = ArchiveQuery(owner=owner_wanted(caller, listing.owner))
        older: list[dict[str, Any]] = []
        looked_at = 0
        turn = self._past.slot(caller.name)
        async with turn, aclosing(self._past.read(wanted)) as parts:
            async for part in parts:
                looked_at += len(part.jobs) + len(part.damaged)
                older += map(damaged_picture, part.damaged)
                older += listing.pictures(job for job in part.jobs if job.id not in known)
                has_enough = 0 < listing.last <= len(found) + len(older)
                if has_enough or looked_at >= PAST_JOBS_MAX:
                    break
        older.reverse()
        return older

    @_answering
    async def Show(self, request: pb.JobRequest, _: Context) -> pb.Document:  # noqa: N802
        caller = caller_of_call()
        return _document(
            await self._ask_about(request.job, lambda turn: _picture(turn, request.job, caller))
        )

    @_answering
    async def Why(self, request: pb.JobRequest, _: Context) -> pb.Document:  # noqa: N802
        caller = caller_of_call()

        def explain(turn: BatchContext) -> dict[str, Any]:
            job = _known(turn, request.job, caller)
            phase = turn.scheduler.jobs[job].phase_name
            return {"job": job, "phase": phase, "why": why(turn.scheduler, job, turn.now)}

        return _document(await self._ask_about(request.job, explain))

    @_answering
    async def Timeline(self, request: pb.JobRequest, _: Context) -> pb.Document:  # noqa: N802
        caller = caller_of_call()

        def timeline(turn: BatchContext) -> dict[str, Any]:
            picture = _picture(turn, request.job, caller)
            return {key: picture[key] for key in ("job", "phase", "timeline", "transfers", "story")}

        return _document(await self._ask_about(request.job, timeline))

    async def _ask_about(self, job: str, decide: Callable[[BatchContext], T]) -> T:
        """Ask the pump; about a job that has left the state, what the journal keeps of it."""
        try:
            return await self._pump.ask(decide)
        except UnknownJobError:
            past = await self._journal.job(job)
            if past is None:
                raise
            return decide(read_only_batch(alone(past), past.submitted_at))

    @_answering
    async def Sites(self, _: pb.Empty, __: Context) -> pb.Document:  # noqa: N802
        caller = caller_of_call()

        def pictures(turn: BatchContext) -> list[dict[str, Any]]:
            shown = _shown(turn, caller)
            return [
                picture
                for picture in self._standing.pictures(turn.scheduler, turn.now)
                if picture["site"] in shown
            ]

        return _document({"sites": await self._pump.ask(pictures)})

    @_answering
    async def ChangeSite(self, request: pb.SiteRequest, _: Context) -> pb.Document:  # noqa: N802
        by = UserName(caller_of_call().name)

        def change(turn: BatchContext) -> dict[str, Any]:
            _change_site(turn, SiteName(request.site), request.verb, by)
            pictures = self._standing.pictures(turn.scheduler, turn.now)
            return next(picture for picture in pictures if picture["site"] == request.site)

        return _document(await self._pump.ask(change))

    @_answering
    async def ListFiles(self, _: pb.Empty, __: Context) -> pb.Document:  # noqa: N802
        caller = caller_of_call()

        def pictures(turn: BatchContext) -> list[dict[str, Any]]:
            shown = _shown(turn, caller)
            found = [
                picture | {"sites": [site for site in picture["sites"] if site in shown]}
                for picture in files_picture(turn.scheduler)
            ]
            return [picture for picture in found if picture["sites"] or caller.sees("")]

        return _document({"files": await self._pump.ask(pictures)})

    @_answering
    async def Metrics(self, _: pb.Empty, __: Context) -> pb.Document:  # noqa: N802
        return _document(await self._pump.ask(lambda turn: self._metrics(turn.scheduler)))

    @_answering
    async def Report(self, request: pb.ReportRequest, _: Context) -> pb.Document:  # noqa: N802
        by, period = _wanted_report(request)
        caller = caller_of_call()
        async with self._past.slot(caller.name):  # a look at all jobs takes long, too
            return _document(await self._report(by, period, caller))

    async def _report(self, by: By, period: Period, caller: Caller) -> dict[str, Any]:
        def begin(turn: BatchContext) -> Report:
            shown = _shown(turn, caller)
            if period.site is not None and period.site not in shown:
                raise _unknown_site(shown, period.site)
            return Report(turn.scheduler, by, period, turn.now, caller.sees)

        report = await self._pump.ask(begin)  # first: what it has not is in the archive then
        owner = owner_wanted(caller, period.user or "")
        wanted = ArchiveQuery(since=period.since, until=min(period.until, report.now), owner=owner)
        count = 0
        async with aclosing(self._past.read(wanted)) as parts:
            async for part in parts:
                if part.damaged:  # figures without it would be wrong
                    raise not_as_archived(self._journal.path, part.damaged[0])
                count += len(part.jobs)
                if count > REPORT_JOBS_MAX:
                    raise RejectedError(
                        f"more than {REPORT_JOBS_MAX} jobs of that period are over: allowed are"
                        " shorter periods (since, until)"
                    )
                report.add(part.jobs)
        return report.document()

    # --- sites and users --------------------------------------------------------------------------

    @_answering
    async def AddSite(self, request: pb.AddSiteRequest, _: Context) -> pb.Document:  # noqa: N802
        return _document(self._registrar.add_site(request))

    @_answering
    async def RevokeSite(self, request: pb.NameRequest, _: Context) -> pb.Document:  # noqa: N802
        return _document(self._registrar.revoke_site(request.name))

    @_answering
    async def ListEnrolments(self, _: pb.Empty, __: Context) -> pb.Document:  # noqa: N802
        return _document(self._registrar.sites())

    @_answering
    async def AddUser(self, request: pb.AddUserRequest, _: Context) -> pb.Document:  # noqa: N802
        return _document(self._registrar.add_user(request))

    @_answering
    async def RevokeUser(self, request: pb.NameRequest, _: Context) -> pb.Document:  # noqa: N802
        return _document(self._registrar.revoke_user(request.name))

    @_answering
    async def ListUsers(self, _: pb.Empty, __: Context) -> pb.Document:  # noqa: N802
        return _document(self._registrar.users())

    @_answering
    async def Audit(self, request: pb.AuditRequest, _: Context) -> pb.Document:  # noqa: N802
        return _document(await self._registrar.audit(request.last))

    # --- streams ----------------------------------------------------------------------------------

    async def Watch(self, request: pb.WatchRequest, context: Context) -> None:  # type: ignore[override]  # noqa: N802 - writes by its context
        caller = caller_of_call()
        try:
            with self._seats.slot(caller.name):
                after = self._notices.start(request.after)  # first: the job may end meanwhile
                is_over = bool(request.job) and await self._look_up(request.job, caller)
                until = self._notices.last if is_over else None
                await self._watch(request, context, caller, after, until)
        except KoalaError as error:
            await abort(context, error)

    async def _watch(
        self,
        request: pb.WatchRequest,
        context: Context,
        caller: Caller,
        after: int,
        until: int | None,
    ) -> None:
        """Send what is wanted; end behind notice `until`, or behind the one with the job's end."""
        # The client knows by this that from here on it misses nothing.
        await context.send_initial_metadata((("koala-after", str(after)),))
        if until is not None and until <= after:
            return
        try:
            async with aclosing(self._notices.since(after)) as lots:
                async for lot in lots:
                    chosen = [notice for notice in lot if _is_wanted(notice, request)]
                    wanted = [_message(n) for n in await self._seen(caller, chosen)]
                    if request.in_lots and wanted:
                        wanted[0].more.extend(wanted[1:])
                        del wanted[1:]
                    for message in wanted:
                        async with asyncio.timeout(WRITE_S_MAX):
                            await context.write(message)
                    if until is None and any(_is_end(notice, request.job) for notice in lot):
                        return
                    if until is not None and until <= lot[-1].number:
                        return
        except CutError as cut:
            await context.abort(grpc.StatusCode.ABORTED, str(cut))
        except TimeoutError:
            reason = f"nothing was taken for {WRITE_S_MAX:g} s; resume after the last one seen"
            await context.abort(grpc.StatusCode.ABORTED, reason)

    async def Logs(self, request: pb.LogsRequest, context: Context) -> None:  # type: ignore[override]  # noqa: N802 - writes by its context
        try:
            caller = caller_of_call()
            wanted = LogsWanted.of(request, caller.name)
            with self._seats.slot(caller.name):
                await self._look_up(request.job, caller)
                if wanted.is_followed:  # the client knows by this that it may be cut, and go on
                    await context.send_initial_metadata((("koala-resumes", "1"),))
                async with aclosing(self._logs.read(wanted)) as parts:
                    async for part in parts:
                        await context.write(part)
        except KoalaError as error:
            await abort(context, error)

    async def Outputs(self, request: pb.OutputsRequest, context: Context) -> None:  # type: ignore[override]  # noqa: N802 - writes by its context
        caller = caller_of_call()

        def read(turn: BatchContext) -> OutputsWanted:
            job = turn.scheduler.jobs[_known(turn, request.job, caller)]
            return OutputsWanted.of(request, job)

        try:
            with self._seats.slot(caller.name):
                async with self._turnstile.slot(caller.name):
                    wanted = await self._ask_about(request.job, read)
                async with aclosing(self._outputs.read(wanted)) as parts:
                    async for part in parts:
                        await context.write(part)
        except KoalaError as error:
            await abort(context, error)

    async def _look_up(self, job: str, caller: Caller) -> bool:
        """Look a job up; true when it is over. A call that stays asks once, and takes its turn for
        that as one that is answered at once does. Raises UnknownJobError, ExhaustedError."""

        def is_over(turn: BatchContext) -> bool:
            return turn.scheduler.jobs[_known(turn, job, caller)].is_over

        async with self._turnstile.slot(caller.name):
            return await self._ask_about(job, is_over)

    async def _seen(self, caller: Caller, notices: Sequence[Notice]) -> Sequence[Notice]:
        """What is told of a site is for those who may use it, what is told of a job for who sees
        the job."""
        if caller.sees(""):
            return notices
        owners = await self._owners({notice.job for notice in notices if notice.job})

        def sees(notice: Notice) -> bool:
            if notice.job:
                return notice.job in owners and caller.sees(owners[notice.job])
            site = self._scheduler.sites.get(SiteName(notice.site))
            return site is None or site.facts.admits(UserName(caller.name))

        return [notice for notice in notices if sees(notice)]

    async def _owners(self, jobs: Iterable[str]) -> dict[str, str]:
        """Whose these jobs are, wherever they are."""
        found: dict[str, str] = {}
        past = []
        for name in jobs:
            job = self._pump.job(JobId(name))
            if job is None:
                past.append(name)
            else:
                found[name] = job.spec.owner
        return found | await self._journal.owners(past) if past else found


# --- parts ----------------------------------------------------------------------------------------


def _message(notice: Notice) -> pb.Notice:
    return pb.Notice(
        number=notice.number,
        at=notice.at,
        job=notice.job,
        site=notice.site,
        phase=notice.phase,
        text=notice.text,
    )


def _is_wanted(notice: Notice, request: pb.WatchRequest) -> bool:
    return request.job in ("", notice.job) and request.site in ("", notice.site)


def _is_end(notice: Notice, job: str) -> bool:
    """A job's last notice; nothing is told of a job that is over."""
    return bool(job) and notice.job == job and notice.phase in _ENDS


def _cancel(turn: BatchContext, job: JobId, by: Caller) -> pb.Cancelled:
    found = turn.scheduler.jobs.get(job)
    if found is None or not by.sees(found.spec.owner):
        return pb.Cancelled(job=job, error=f"no job {str(job)[:80]!r}")
    if found.is_over and not isinstance(found.phase, Cancelled):
        error = f"{job} is {found.phase_name} already"
        return pb.Cancelled(job=job, phase=found.phase_name, error=error)
    if not found.is_over:
        turn.emit(JobCancelRequested(job=job, by=UserName(by.name)))
    return pb.Cancelled(job=job, phase=found.phase_name)


def _change_site(turn: BatchContext, site: SiteName, verb: str, by: UserName) -> None:
    if verb not in SITE_VERBS:
        raise SpecError(f"verb = {verb[:40]!r}: allowed are {', '.join(SITE_VERBS)}")
    if site not in turn.scheduler.sites:
        raise _unknown_site(turn.scheduler.sites, site)
    if verb == "drain":
        turn.emit(SiteDrained(site=site, by=by))
    elif verb == "resume":
        turn.emit(SiteResumed(site=site, by=by))
    elif turn.scheduler.sites[site].is_connected:
        raise RejectedError(f"{site} is connected and can say itself what lives there: drain it")
    else:
        turn.emit(SiteDeclaredLost(site=site, by=by))
        for file, replica in tuple(turn.scheduler.replicas.items()):
            if site in replica.sites:  # another content may have the name now
                turn.emit(ReplicaRemoved(file=file, site=site))


def _wanted_report(request: pb.ReportRequest) -> tuple[By, Period]:
    """Raises SpecError."""
    try:
        by = By(request.by or By.USER)
    except ValueError as error:
        message = f"by = {request.by[:40]!r}: allowed are {', '.join(By)}"
        raise SpecError(message) from error
    since = request.since if request.HasField("since") else -math.inf
    until = request.until if request.HasField("until") else math.inf
    if not since < until:  # nor is a NaN
        raise SpecError(f"since = {since} and until = {until}: the first must be before the second")
    user = UserName(request.user) if request.user else None
    site = SiteName(request.site) if request.site else None
    return by, Period(since=since, until=until, user=user, site=site)


def _shown(turn: BatchContext, caller: Caller) -> list[SiteName]:
    """The sites that are there for the caller: those that the caller's jobs may use, and all for an
    operator."""
    user = UserName(caller.name)
    sites = turn.scheduler.sites.values()
    return [site.name for site in sites if caller.sees("") or site.facts.admits(user)]


def _unknown_site(sites: Iterable[SiteName], site: SiteName) -> UnknownSiteError:
    known = ", ".join(sites) or "none"
    return UnknownSiteError(f"no site {str(site)[:80]!r}: known are {known}")


def _known(turn: BatchContext, job: str, caller: Caller) -> JobId:
    """The job's id; what the caller may not see is not there. Raises UnknownJobError."""
    found = turn.scheduler.jobs.get(JobId(job))
    if found is None or not caller.sees(found.spec.owner):
        raise UnknownJobError(f"no job {job[:80]!r}")
    return JobId(job)


def _picture(turn: BatchContext, job: str, caller: Caller) -> dict[str, Any]:
    return whole_picture(turn.scheduler, _known(turn, job, caller), turn.now)


def _document(picture: dict[str, Any]) -> pb.Document:
    return pb.Document(json=msgspec.json.encode(picture).decode())
