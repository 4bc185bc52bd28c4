"""The Koala gRPC service for clients.

Every answer is computed in a batch of the event loop and sent after its commit, so no client sees
state that a crash could undo. The schemas of documents are in docs/api.md.
"""

from __future__ import annotations

import asyncio
import math
from collections.abc import AsyncIterator, Callable, Iterable, Sequence
from contextlib import aclosing
from dataclasses import dataclass
from typing import Any, TypeAlias, TypeVar

import grpc
from msgspec.structs import replace

from koala.common.protocol.versions import PROTOCOL
from koala.common.runtime.option_values import did_you_mean
from koala.common.wire.status import from_submitted
from koala.common.wire.v1 import koala_pb2 as pb
from koala.common.wire.v1.files_pb2 import Frame
from koala.common.wire.v1.koala_pb2_grpc import KoalaServicer
from koala.core.model.events import (
    JobCancelRequested,
    JobResizeRequested,
    ReplicaRemoved,
    SiteDeclaredLost,
    SiteDrained,
    SiteResumed,
)
from koala.core.model.job import Cancelled, Claiming, Job, Placing, Queued
from koala.core.model.job_spec import JobSpec
from koala.core.model.values import Instant, JobId, SiteName, UserName
from koala.core.purge import state_of_jobs
from koala.core.scheduler import Scheduler
from koala.core.splitting import has_place
from koala.daemon.auth.access_rules import Caller, caller_of_call
from koala.daemon.auth.enrolment_service import Registrar
from koala.daemon.clients.file_service import FileService
from koala.daemon.clients.group_service import GroupService
from koala.daemon.clients.listing import ArchiveQueries, Listing, damaged_job, no_job, owner_wanted
from koala.daemon.clients.logs import Logs, LogsWanted
from koala.daemon.clients.notification_service import NotificationService
from koala.daemon.clients.outputs import Outputs, OutputsWanted
from koala.daemon.clients.site_status import SiteStatus
from koala.daemon.clients.submit_service import CHUNK, SubmitService
from koala.daemon.clients.watch_streams import WatchStreams
from koala.daemon.loop.event_loop import EventLoop
from koala.daemon.loop.group_commit import BatchContext, read_only_batch
from koala.daemon.quotas import ConcurrencyQuota, FairQueue
from koala.daemon.storage.archive import ArchiveQuery, changed_row_error
from koala.daemon.storage.journal import Journal
from koala.errors import ExhaustedError, RejectedError, SpecError, UnknownJobError, UnknownSiteError
from koala.job_descriptions import write_job
from koala.views.accounting import By, Period, ReportBuilder
from koala.views.documents import phase_of, summary, timeline_document, whole_document
from koala.views.explain import why
from koala.views.grid_timeline import View, grid_timeline
from koala.views.queues import queues_document
from koala.views.records import accounts, chart, grid, jobs
from koala.views.records.base import Record, encode

SUBMISSIONS_MAX = 1_000
SITE_VERBS = ("drain", "resume", "lost")
CANCELS_MAX = 10_000
REPORT_JOBS_MAX = 50_000  # archived jobs in a report
PAST_JOBS_MAX = 10_000  # newest archived jobs in a list

Context: TypeAlias = "grpc.aio.ServicerContext[Any, Any]"
Request = TypeVar("Request")
Reply = TypeVar("Reply")
Self = TypeVar("Self")
T = TypeVar("T")


@dataclass(frozen=True, kw_only=True)
class Service(KoalaServicer):
    """gRPC service, one method a call; method names are gRPC's.

    The interceptor turns the KoalaErrors of a call into gRPC statuses.
    """

    version: str
    relay: Callable[[], str]
    scheduler: Scheduler
    event_loop: EventLoop
    watches: WatchStreams
    site_status: SiteStatus
    logs: Logs
    outputs: Outputs
    files: FileService
    registrar: Registrar
    groups: GroupService
    notifications: NotificationService
    journal: Journal
    archive: ArchiveQueries
    stream_quota: ConcurrencyQuota
    call_queue: FairQueue
    submit_service: SubmitService
    metrics: Callable[[Scheduler], grid.Metrics]

    async def Hello(self, _: pb.HelloRequest, __: Context) -> pb.HelloReply:  # noqa: N802
        epoch, now = await self.event_loop.ask(lambda batch: (batch.scheduler.epoch, batch.now))
        caller = caller_of_call()
        return pb.HelloReply(
            protocol=PROTOCOL,
            version=self.version,
            epoch=epoch,
            user=caller.name,
            role=caller.role.value,
            now=now,
            relay=self.relay(),
            expires_at=caller.expires_at or 0.0,
        )

    # --- submit and cancel ------------------------------------------------------------------------

    async def Submit(self, request: pb.SubmitRequest, _: Context) -> pb.SubmitReply:  # noqa: N802
        if len(request.submissions) > SUBMISSIONS_MAX:
            count = len(request.submissions)
            raise SpecError(f"{count} submissions in one call (expected at most {SUBMISSIONS_MAX})")
        results = await self.submit_service.submit(
            request.submissions, caller_of_call(), is_dry_run=request.dry_run
        )
        errors = [from_submitted(result) for result in results]
        if errors and all(isinstance(error, ExhaustedError) for error in errors):
            assert errors[0] is not None
            raise errors[0]
        return pb.SubmitReply(results=results)

    async def Cancel(self, request: pb.CancelRequest, _: Context) -> pb.CancelReply:  # noqa: N802
        by = caller_of_call()
        if len(request.jobs) > CANCELS_MAX:
            count = len(request.jobs)
            raise SpecError(f"{count} jobs in one call (expected at most {CANCELS_MAX})")

        results: list[pb.Cancelled] = []
        for first in range(0, len(request.jobs), CHUNK):
            chunk = request.jobs[first : first + CHUNK]

            def cancel(batch: BatchContext, chunk: Sequence[str] = chunk) -> list[pb.Cancelled]:
                return [_cancel(batch, JobId(job), by) for job in chunk]

            results += [
                result if result.phase else await self._cancel_past(result, by)
                for result in await self.event_loop.ask(cancel)
            ]
        return pb.CancelReply(results=results)

    async def _cancel_past(self, result: pb.Cancelled, by: Caller) -> pb.Cancelled:
        """Answer the cancel of an archived job: it is over."""
        past = await self.journal.job(result.job)
        if past is None:
            return result
        return _cancel(read_only_batch(state_of_jobs(past), past.submitted_at), past.id, by)

    async def Resize(self, request: pb.ResizeRequest, _: Context) -> pb.Document:  # noqa: N802
        caller = caller_of_call()

        def resize(batch: BatchContext, job: Job) -> jobs.JobSummary:
            return _resize(batch, job, request.total, caller)

        return _document(await self._query_job(request.job, resize))

    # --- queries ----------------------------------------------------------------------------------

    async def List(self, request: pb.ListRequest, _: Context) -> pb.Document:  # noqa: N802
        caller = caller_of_call()
        listing = Listing.of(request, caller, self.site_status.registry.queue)
        summaries, next_after = await listing.read(self.event_loop)
        if request.past and not 0 < request.last <= len(summaries):
            summaries = [*await self._older(listing, summaries), *summaries]
        return _document(jobs.JobPage(jobs=tuple(summaries[-request.last :]), next=next_after))

    async def _older(
        self, listing: Listing, live: Sequence[jobs.JobSummary]
    ) -> list[jobs.JobSummary]:
        """Read matching jobs of the archive, in the order of their ends."""
        caller = listing.caller
        known = {job.job for job in live}
        wanted = ArchiveQuery(owner=owner_wanted(caller, listing.owner))
        older: list[jobs.JobSummary] = []
        looked_at = 0
        slot = self.archive.slot(caller.name)
        async with slot, aclosing(self.archive.read(wanted)) as parts:
            async for part in parts:
                looked_at += len(part.jobs) + len(part.damaged)
                older += map(damaged_job, part.damaged)
                wanted_jobs = [job for job in part.jobs if job.id not in known and listing.has(job)]
                older += map(summary, wanted_jobs)
                has_enough = 0 < listing.last <= len(live) + len(older)
                if has_enough or looked_at >= PAST_JOBS_MAX:
                    break
        older.reverse()
        return older

    async def Show(self, request: pb.JobRequest, _: Context) -> pb.Document:  # noqa: N802
        def read(batch: BatchContext, job: Job) -> tuple[jobs.JobDetails, JobSpec]:
            queues = self.site_status.registry.queue
            return whole_document(batch.scheduler, job.id, batch.now, queues), job.spec

        details, spec = await self._query_job(request.job, read)
        description = await asyncio.to_thread(_description, spec)
        return _document(replace(details, description=description))

    async def Why(self, request: pb.JobRequest, _: Context) -> pb.Document:  # noqa: N802
        def explain(batch: BatchContext, job: Job) -> jobs.Explanation:
            lines = why(batch.scheduler, job.id, batch.now, self.site_status.registry.queue)
            if isinstance(job.phase, (Placing, Claiming, Queued)):
                lines += self.site_status.troubles(batch.scheduler, job.spec)
            return jobs.Explanation(job=job.id, phase=phase_of(job), why=tuple(lines))

        return _document(await self._query_job(request.job, explain))

    async def Timeline(self, request: pb.JobRequest, _: Context) -> pb.Document:  # noqa: N802
        def timeline(batch: BatchContext, job: Job) -> jobs.JobTimeline:
            return timeline_document(batch.scheduler, job.id, batch.now)

        return _document(await self._query_job(request.job, timeline))

    async def _query_job(self, name: str, decide: Callable[[BatchContext, Job], T]) -> T:
        """Query a job that the caller may see, in the state, or else in the journal's archive.
        Raises UnknownJobError."""
        caller = caller_of_call()

        def read(batch: BatchContext) -> T:
            job = batch.scheduler.jobs.get(JobId(name))
            if job is None or not caller.sees(job.spec.owner):
                raise UnknownJobError(no_job(name))
            return decide(batch, job)

        try:
            return await self.event_loop.ask(read)
        except UnknownJobError:
            past = await self.journal.job(name)
            if past is None:
                raise
            return read(read_only_batch(state_of_jobs(past), past.submitted_at))

    async def GridTimeline(self, request: pb.GridTimelineRequest, _: Context) -> pb.Document:  # noqa: N802
        since = request.since if request.HasField("since") else None
        until = request.until if request.HasField("until") else None
        _check_period(-math.inf if since is None else since, math.inf if until is None else until)
        caller = caller_of_call()

        def read(batch: BatchContext) -> chart.GridTimeline:
            shown = _shown(batch, caller)
            if request.site and request.site not in shown:
                raise _unknown_site(shown, SiteName(request.site))
            view = View(sites={SiteName(request.site)} if request.site else shown, sees=caller.sees)
            state, local = batch.scheduler, self.site_status.local
            return grid_timeline(state, local, view, now=batch.now, since=since, until=until)

        return _document(await self.event_loop.ask(read))

    async def Sites(self, _: pb.Empty, __: Context) -> pb.Document:  # noqa: N802
        caller = caller_of_call()

        def read(batch: BatchContext) -> grid.Sites:
            shown = _shown(batch, caller)
            statuses = self.site_status.sites(batch.scheduler, batch.now)
            return grid.Sites(sites=tuple(site for site in statuses if site.site in shown))

        return _document(await self.event_loop.ask(read))

    async def ChangeSite(self, request: pb.SiteRequest, _: Context) -> pb.Document:  # noqa: N802
        caller = caller_of_call()

        if request.verb not in SITE_VERBS:
            verbs = ", ".join(SITE_VERBS)
            raise SpecError(f"verb = {request.verb[:40]!r} (expected {verbs})")

        def change(batch: BatchContext) -> grid.SiteStatus:
            site = batch.scheduler.sites.get(SiteName(request.site))
            facts = site.facts if site is not None else None
            caller.require_change_of(request.site, facts, request.verb)
            _change_site(batch, SiteName(request.site), request.verb, UserName(caller.name))
            statuses = self.site_status.sites(batch.scheduler, batch.now)
            return next(status for status in statuses if status.site == request.site)

        return _document(await self.event_loop.ask(change))

    # --- files ------------------------------------------------------------------------------------

    async def ListFiles(self, _: pb.Empty, __: Context) -> pb.Document:  # noqa: N802
        caller = caller_of_call()
        return _document(await self.event_loop.ask(lambda batch: self.files.visible(batch, caller)))

    async def Upload(self, messages: AsyncIterator[Frame], context: Context) -> None:  # type: ignore[override]  # noqa: N802 - writes by its context
        user = caller_of_call().name
        with self.stream_quota.slot(user):
            async with aclosing(self.files.upload(messages, user)) as replies:
                async for reply in replies:
                    await context.write(reply)

    async def AddFile(self, request: pb.AddFileRequest, context: Context) -> None:  # type: ignore[override]  # noqa: N802 - writes by its context
        caller = caller_of_call()
        with self.stream_quota.slot(caller.name):
            async with aclosing(self.files.add(request, caller)) as replies:
                async for reply in replies:
                    await context.write(reply)

    async def RemoveFile(self, request: pb.RemoveFileRequest, _: Context) -> pb.Document:  # noqa: N802
        return _document(await self.files.remove(request, caller_of_call()))

    async def Metrics(self, _: pb.Empty, __: Context) -> pb.Document:  # noqa: N802
        return _document(await self.event_loop.ask(lambda batch: self.metrics(batch.scheduler)))

    async def Queues(self, _: pb.Empty, __: Context) -> pb.Document:  # noqa: N802
        caller = caller_of_call()

        return _document(
            await self.event_loop.ask(lambda batch: queues_document(batch.scheduler, caller.sees))
        )

    async def Report(self, request: pb.ReportRequest, _: Context) -> pb.Document:  # noqa: N802
        by, period = _wanted_report(request)
        caller = caller_of_call()
        async with self.archive.slot(caller.name):  # a scan of all jobs takes long, too
            return _document(await self._report(by, period, caller))

    async def _report(
        self, by: By, period: Period, caller: Caller
    ) -> accounts.Report | accounts.ClaimReport:
        def begin(batch: BatchContext) -> ReportBuilder:
            shown = _shown(batch, caller)
            if period.site is not None and period.site not in shown:
                raise _unknown_site(shown, period.site)
            return ReportBuilder(batch.scheduler, by, period, batch.now, caller.sees)

        report = await self.event_loop.ask(begin)  # first: jobs that it lacks are archived by then
        owner = owner_wanted(caller, period.user or "")
        wanted = ArchiveQuery(since=period.since, until=min(period.until, report.now), owner=owner)
        count = 0
        async with aclosing(self.archive.read(wanted)) as parts:
            async for part in parts:
                if part.damaged:  # figures without it would be wrong
                    raise changed_row_error(self.journal.path, part.damaged[0])
                count += len(part.jobs)
                if count > REPORT_JOBS_MAX:
                    raise RejectedError(
                        f"more than {REPORT_JOBS_MAX} jobs of that period have ended (expected a"
                        " shorter period: since, until)"
                    )
                report.add(part.jobs)
        return report.report()

    # --- sites and users --------------------------------------------------------------------------

    async def AddSite(self, request: pb.AddSiteRequest, _: Context) -> pb.Document:  # noqa: N802
        return _document(self.registrar.add_site(request))

    async def RevokeSite(self, request: pb.NameRequest, _: Context) -> pb.Document:  # noqa: N802
        return _document(self.registrar.revoke_site(request.name))

    async def ListEnrolments(self, _: pb.Empty, __: Context) -> pb.Document:  # noqa: N802
        return _document(self.registrar.sites())

    async def AddUser(self, request: pb.AddUserRequest, _: Context) -> pb.Document:  # noqa: N802
        return _document(self.registrar.add_user(request))

    async def RevokeUser(self, request: pb.NameRequest, _: Context) -> pb.Document:  # noqa: N802
        return _document(self.registrar.revoke_user(request.name))

    async def RenewToken(self, _: pb.Empty, __: Context) -> pb.Document:  # noqa: N802
        return _document(self.registrar.renew_token())

    async def SetUser(self, request: pb.SetUserRequest, _: Context) -> pb.Document:  # noqa: N802
        user = self.registrar.set_user(request)
        await self.groups.publish()
        return _document(user)

    async def SetGroup(self, request: pb.SetGroupRequest, _: Context) -> pb.Document:  # noqa: N802
        return _document(await self.groups.changed(self.registrar.set_group(request)))

    async def RemoveGroup(self, request: pb.NameRequest, _: Context) -> pb.Document:  # noqa: N802
        return _document(await self.groups.changed(self.registrar.remove_group(request.name)))

    async def Notifications(self, request: pb.NotificationsRequest, _: Context) -> pb.Document:  # noqa: N802
        return _document(await self.notifications.answer(request, caller_of_call()))

    async def ListGroups(self, _: pb.Empty, __: Context) -> pb.Document:  # noqa: N802
        return _document(await self.groups.documents(self.registrar.groups()))

    async def ListUsers(self, _: pb.Empty, __: Context) -> pb.Document:  # noqa: N802
        return _document(self.registrar.users())

    async def Audit(self, request: pb.AuditRequest, _: Context) -> pb.Document:  # noqa: N802
        return _document(await self.registrar.audit(request.last))

    # --- streams ----------------------------------------------------------------------------------

    async def Watch(self, request: pb.WatchRequest, context: Context) -> None:  # type: ignore[override]  # noqa: N802 - writes by its context
        caller = caller_of_call()
        with self.stream_quota.slot(caller.name):
            after = self.watches.event_feed.start(request.after)  # first: the job may end meanwhile
            has_ended = bool(request.job) and await self._check_job(request.job, caller)
            until = self.watches.event_feed.last if has_ended else None
            await self.watches.send(request, context, caller, after, until)

    async def Logs(self, request: pb.LogsRequest, context: Context) -> None:  # type: ignore[override]  # noqa: N802 - writes by its context
        caller = caller_of_call()
        wanted = LogsWanted.of(request, caller.name)
        with self.stream_quota.slot(caller.name):
            await self._check_job(request.job, caller)
            if wanted.is_followed:  # tells the client that it can resume after a cut
                await context.send_initial_metadata((("koala-resumes", "1"),))
            async with aclosing(self.logs.read(wanted)) as parts:
                async for part in parts:
                    await context.write(part)

    async def Outputs(self, request: pb.OutputsRequest, context: Context) -> None:  # type: ignore[override]  # noqa: N802 - writes by its context
        caller = caller_of_call()

        with self.stream_quota.slot(caller.name):
            async with self.call_queue.slot(caller.name):
                wanted = await self._query_job(
                    request.job, lambda _, job: OutputsWanted.of(request, job)
                )
            async with aclosing(self.outputs.read(wanted)) as parts:
                async for part in parts:
                    await context.write(part)

    async def _check_job(self, job: str, caller: Caller) -> bool:
        """Look a job up; True when it is over. Raises UnknownJobError, ExhaustedError.

        A streaming call queues for this one query as a unary call does.
        """
        async with self.call_queue.slot(caller.name):
            return await self._query_job(job, lambda _, known: known.has_ended)


# --- parts ----------------------------------------------------------------------------------------


def _cancel(batch: BatchContext, job: JobId, by: Caller) -> pb.Cancelled:
    known = batch.scheduler.jobs.get(job)
    if known is None or not by.sees(known.spec.owner):
        return pb.Cancelled(job=job, error=no_job(str(job)))
    if known.has_ended and not isinstance(known.phase, Cancelled):
        error = f"{job} is {known.phase_name} already"
        return pb.Cancelled(job=job, phase=known.phase_name, error=error)
    if not known.has_ended:
        batch.emit(JobCancelRequested(job=job, by=UserName(by.name)))
    return pb.Cancelled(job=job, phase=known.phase_name)


def _resize(batch: BatchContext, job: Job, total: int, by: Caller) -> jobs.JobSummary:
    """Ask for another total of a job, and return its summary. Raises RejectedError."""
    name, split = job.id, job.spec.split
    if split is None or not split.is_malleable:
        raise RejectedError(f"{name} is not malleable (expected a job with malleable=yes)")
    if job.has_ended:
        raise RejectedError(f"{name} is {job.phase_name} already (expected a job that is not over)")
    if not split.least <= total <= split.parts_max * split.part_max:
        raise RejectedError(
            f"{total} processors for {name} (expected {split.least} to"
            f" {split.parts_max * split.part_max}, its bounds)"
        )
    if not has_place(job.spec, total, batch.scheduler.sites.values()):
        raise RejectedError(
            f"{total} processors for {name}: no split of them has a place at the sites (expected"
            f" another number: {split.describe()})"
        )
    batch.emit(JobResizeRequested(job=name, total=total, by=UserName(by.name)))
    return summary(job)


def _change_site(batch: BatchContext, site: SiteName, verb: str, by: UserName) -> None:
    if site not in batch.scheduler.sites:
        raise _unknown_site(batch.scheduler.sites, site)
    if verb == "drain":
        batch.emit(SiteDrained(site=site, by=by))
    elif verb == "resume":
        batch.emit(SiteResumed(site=site, by=by))
    elif batch.scheduler.sites[site].is_connected:
        raise RejectedError(f"{site} is connected and can say itself what lives there: drain it")
    else:
        batch.emit(SiteDeclaredLost(site=site, by=by))
        for file, replica in tuple(batch.scheduler.replicas.items()):
            if site in replica.sites:  # another content may have the name now
                batch.emit(ReplicaRemoved(file=file, site=site))


def _wanted_report(request: pb.ReportRequest) -> tuple[By, Period]:
    """Parse a report request. Raises SpecError."""
    try:
        by = By(request.by or By.USER)
    except ValueError as error:
        message = f"by = {request.by[:40]!r} (expected one of {', '.join(By)})"
        raise SpecError(message) from error
    since = request.since if request.HasField("since") else -math.inf
    until = request.until if request.HasField("until") else math.inf
    _check_period(since, until)
    user = UserName(request.user) if request.user else None
    site = SiteName(request.site) if request.site else None
    return by, Period(since=since, until=until, user=user, site=site)


def _check_period(since: Instant, until: Instant) -> None:
    if not since < until:  # nor is a NaN
        raise SpecError(f"since = {since} and until = {until}: the first must be before the second")


def _shown(batch: BatchContext, caller: Caller) -> list[SiteName]:
    """Return the sites visible to the caller: those that admit its jobs; all for an operator."""
    user = UserName(caller.name)
    sites = batch.scheduler.sites.values()
    return [site.name for site in sites if caller.sees("") or site.facts.admits(user)]


def _unknown_site(sites: Iterable[SiteName], site: SiteName) -> UnknownSiteError:
    sites = list(sites)
    known = ", ".join(sites) or "none"
    hint = did_you_mean(site, sites)
    return UnknownSiteError(f"no site {str(site)[:80]!r} (expected one of {known}{hint})")


def _description(spec: JobSpec) -> str:
    """Write a job as RSL; empty for one that RSL has no words for."""
    try:
        return write_job(spec)
    except SpecError:
        return ""


def _document(record: Record) -> pb.Document:
    return pb.Document(json=encode(record).decode())
