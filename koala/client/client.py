"""The asynchronous client: the verbs of the command line as coroutines.

    async with AsyncClient() as client:
        job = await client.submit("&(executable=/bin/hostname)(count=4)")
        phase = await job.wait()

A public method has its synchronous one in `koala.client.sync`.

The address is the first of these:

- the argument;
- KOALA_ADDRESS;
- the address in the user's credentials;
- a daemon of this account on this machine (of several, the one at the port of `DEFAULT_ADDRESS`;
  without one there, a ConfigError names them);
- `DEFAULT_ADDRESS`.

Errors are those of `koala.errors`. If no daemon listens, UnreachableError follows within
`CONNECT_S`. `watch`, `wait` and `logs(follow=True)` continue after a restart of the daemon, without
gaps or duplicates.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, AsyncIterator, Callable, Iterable, Mapping, Sequence
from contextlib import aclosing, suppress
from pathlib import Path
from types import TracebackType
from typing import Any, cast

from koala.client.batched_submission import staged_message, submit_messages
from koala.client.connection import CALL_S, Connection, until
from koala.client.description import Job, without_place, without_places
from koala.client.fetching import prepare_folder, write_files
from koala.client.file_calls import AsyncFileCalls
from koala.client.grid_calls import AsyncGridCalls
from koala.client.records import LogPart, OutputFile, OutputPart
from koala.client.resumable_stream import StreamOpened
from koala.client.submission import Submission
from koala.common.identity.credentials import Credentials
from koala.common.wire.v1 import koala_pb2 as pb
from koala.errors import KoalaError, SpecError, TimeLimitError, UnreachableError
from koala.views.records.base import Moment, Records
from koala.views.records.jobs import (
    NO_NOTICE,
    CancelResult,
    Explanation,
    JobDetails,
    JobPage,
    JobSummary,
    JobTimeline,
    Notice,
)
from koala.views.records.phases import TERMINAL_PHASES, Phase, TerminalPhase

PAGE = 1_000  # jobs of a list in one message


class AsyncClient(AsyncGridCalls, AsyncFileCalls):
    """Connection to a daemon. Use it in `async with`.

    - Without `credentials` the client finds them itself.
    - `user` names the caller on plain-text connections and is ignored elsewhere.
    - `timeout` limits each call, in seconds: NoAnswerError, which is a TimeoutError.
    """

    def __init__(
        self,
        address: str | None = None,
        *,
        user: str | None = None,
        credentials: Credentials | None = None,
        timeout: float = CALL_S,
    ) -> None:
        super().__init__(Connection(address, user=user, credentials=credentials, timeout=timeout))

    async def __aenter__(self) -> AsyncClient:
        self._daemon.endpoint.unlock()
        return self

    async def __aexit__(
        self,
        _: type[BaseException] | None,
        __: BaseException | None,
        ___: TracebackType | None,
    ) -> None:
        await self._daemon.endpoint.close()

    @property
    def address(self) -> str:
        """Address of the daemon."""
        return self._daemon.address

    @property
    def credentials_source(self) -> str:
        """Place where the credentials were found; may be empty before the first call."""
        return self._daemon.endpoint.source

    # --- jobs -------------------------------------------------------------------------------------

    async def submit(  # noqa: PLR0913 - options of a submission, all by name
        self,
        rsl: str | Job,
        *,
        definitions: Mapping[str, str] | None = None,
        key: str = "",
        dry_run: bool = False,
        reject_if_full: bool = False,
        queue: str = "",
        after: Sequence[str] = (),
        group: str = "",
        retry_for_s: float = 0.0,
    ) -> AsyncJobHandle:
        """Submit a job description: RSL, YAML or JSON, or a `Job`. Return a handle of the job.

        - `key` is an idempotency key: the same call again returns the same job.
        - `dry_run`: only check the description; the handle then names no job.
        - `reject_if_full`: reject instead of delay when the placement queues are full.
        - `queue` is the site whose local queue takes the job: a job of one component runs there
          and nowhere else.
        - `after`: jobs that must have ended before this one is placed, as `j12`, or `j12:any` where
          any end will do; beside those that the description names.
        - `group` of users for which the job counts, in place of that of the description or of the
          user.
        - `retry_for_s`: retry for so long while the daemon has no room.

        Raises SpecError, RejectedError; ExhaustedError if there is no room after `retry_for_s`.
        """
        submission = Submission(
            rsl=rsl,
            definitions=definitions or {},
            key=key,
            reject_if_full=reject_if_full,
            queue=queue,
            after=after,
            group=group,
        )
        results = await self.submit_many([submission], dry_run=dry_run, retry_for_s=retry_for_s)
        result = results[0]
        if isinstance(result, KoalaError):
            raise result
        return result

    async def submit_many(
        self,
        submissions: Iterable[Submission | Job | str],
        *,
        dry_run: bool = False,
        retry_for_s: float = 0.0,
    ) -> list[AsyncJobHandle | KoalaError]:
        """Submit several descriptions; return a handle or an error for each, in order.

        Submissions for which the daemon has no room are retried for `retry_for_s` seconds, at the
        intervals that the daemon asks for.
        """
        wanted = list(submissions)
        staged = [
            await staged_message(self._daemon, submission, dry_run=dry_run) for submission in wanted
        ]
        messages = [message for message, _ in staged]
        answers = await submit_messages(
            self._daemon, messages, dry_run=dry_run, retry_for_s=retry_for_s
        )
        return [
            _in_words_of(submission, answer)
            if isinstance(answer, KoalaError)
            else AsyncJobHandle(
                self,
                answer.job,
                warnings=(*_words_for(submission, answer.warnings), *warnings),
                is_known=answer.is_known,
                expected=answer.expected,
            )
            for submission, answer, (_, warnings) in zip(wanted, answers, staged, strict=True)
        ]

    def job(self, job: str) -> AsyncJobHandle:
        """Make a handle of the job with this id; the daemon is not asked."""
        return AsyncJobHandle(self, job)

    async def cancel(self, jobs: Sequence[str] | str) -> list[CancelResult]:
        """Cancel jobs. A job that is over stays unchanged, and its result has an error."""
        names = [jobs] if isinstance(jobs, str) else list(jobs)
        reply = await self._daemon.call("Cancel", pb.CancelRequest(jobs=names), pb.CancelReply)
        return [
            CancelResult(job=r.job, phase=cast(Phase, r.phase), error=r.error)
            for r in reply.results
        ]

    async def resize(self, job: str, total: int) -> JobSummary:
        """Ask for another total of processors of a malleable job; one that runs grows or shrinks
        when it can. Raises RejectedError."""
        request = pb.ResizeRequest(job=job, total=total)
        return await self._daemon.record(JobSummary, "Resize", request)

    async def list_jobs(
        self,
        *,
        phases: Sequence[str] = (),
        owner: str = "",
        last: int = 0,
        past: bool = False,
        jobs: Sequence[str] = (),
    ) -> list[JobSummary]:
        """List summaries of jobs in order of submission; with `past` also archived jobs.

        `jobs` restricts the list to these ids; unknown ones are left out.
        """
        listed: Records[JobSummary] = Records()
        after, page = "", 0 if last or past else PAGE
        while True:
            request = pb.ListRequest(
                phases=phases,
                owner=owner,
                last=last,
                past=past,
                after=after,
                page=page,
                jobs=jobs,
            )
            one_page = await self._daemon.record(JobPage, "List", request)
            listed += one_page.jobs
            after = one_page.next or ""
            if not after:
                return listed

    async def show(self, job: str) -> JobDetails:
        """Show all of one job. Raises UnknownJobError."""
        return await self._daemon.record(JobDetails, "Show", pb.JobRequest(job=job))

    async def why(self, job: str) -> Explanation:
        """Explain why a job waits or how it ended; the text of the answer is the explanation."""
        return await self._daemon.record(Explanation, "Why", pb.JobRequest(job=job))

    async def timeline(self, job: str) -> JobTimeline:
        """Return a job's points A to E, the times between, and its history."""
        return await self._daemon.record(JobTimeline, "Timeline", pb.JobRequest(job=job))

    async def wait(self, job: str, *, timeout: float | None = None) -> TerminalPhase:
        """Wait until a job is over; return its last phase: Finished, Failed or Cancelled.

        The job continues if `timeout` seconds pass: TimeLimitError, which is a TimeoutError.
        """
        return (await self.wait_all([job], timeout=timeout))[job]

    async def wait_all(
        self, jobs: Sequence[str], *, timeout: float | None = None
    ) -> dict[str, TerminalPhase]:
        """Wait until all jobs are over; return their last phases. Raises UnknownJobError, and
        TimeLimitError after `timeout` seconds."""
        phases: dict[str, str] = {}
        try:
            async with asyncio.timeout(timeout):
                await self._wait_all(jobs, phases)
        except TimeoutError as error:
            if isinstance(error, KoalaError):
                raise
            job = next(job for job in jobs if phases.get(job) not in TERMINAL_PHASES)
            phase = phases.get(job, "of an unknown phase")
            raise TimeLimitError(f"{job} is {phase} after timeout = {timeout:g} s") from error
        return cast(dict[str, TerminalPhase], phases)

    async def _wait_all(self, jobs: Sequence[str], phases: dict[str, str]) -> None:
        """Wait until all jobs are over, and note their phases."""
        await self._note_phases(jobs, phases)
        only = jobs[0] if len(jobs) == 1 else ""
        while not all(phase in TERMINAL_PHASES for phase in phases.values()):
            async for notice in self._watch(after=-1, job=only, is_marked=True):
                if not notice:  # the watch has started: fetch the phases of before, once
                    with suppress(UnreachableError):  # the watch reconnects and repeats this
                        left = [
                            job for job, phase in phases.items() if phase not in TERMINAL_PHASES
                        ]
                        await self._note_phases(left, phases)
                elif notice.job in phases and notice.phase:
                    phases[notice.job] = notice.phase
                if all(phase in TERMINAL_PHASES for phase in phases.values()):
                    break

    async def _note_phases(self, jobs: Sequence[str], phases: dict[str, str]) -> None:
        """Fetch the phases of jobs, a page of them in one call; archived jobs take a call each.
        Raises UnknownJobError."""
        listed: dict[str, str] = {}
        for first in range(0, len(jobs), PAGE):
            page = await self.list_jobs(jobs=jobs[first : first + PAGE])
            listed.update((each.job, each.phase) for each in page)
        for job in jobs:
            phases[job] = listed[job] if job in listed else (await self.show(job)).phase

    def logs(
        self,
        job: str,
        *,
        component: str | int = "",
        stream: str = "both",
        process: int = -1,
        follow: bool = False,
        timeout: float | None = None,
    ) -> AsyncIterator[LogPart]:
        """Stream the logs of a job's programs, in labelled parts.

        - `component` is an index or a label; `stream` is stdout, stderr or both; `process` is -1
          for all processes.
        - With `follow` the stream continues until the job is over, also after restarts of the
          daemon, without gaps or duplicates.

        Raises TimeLimitError if the stream has not ended after `timeout` seconds.
        """
        request = pb.LogsRequest(
            job=job, component=str(component), stream=stream, process=process, follow=follow
        )
        return until(self._logs(request), timeout, f"logs of {job}")

    async def _logs(self, request: pb.LogsRequest) -> AsyncGenerator[LogPart, None]:
        positions: dict[tuple[int, int, str], pb.LogPlace] = {}

        async def open_stream() -> Any:  # noqa: ANN401 - gRPC's call
            del request.after[:]
            request.after.extend(positions.values())
            return (await self._daemon.stub()).Logs(request, metadata=self._daemon.metadata)

        async with aclosing(self._daemon.resumable(open_stream, key="koala-resumes")) as parts:
            async for part in parts:
                if isinstance(part, StreamOpened):
                    continue
                positions[part.component, part.process, part.stream] = pb.LogPlace(
                    attempt=part.attempt,
                    component=part.component,
                    process=part.process,
                    stream=part.stream,
                    offset=part.offset + len(part.data),
                )
                yield LogPart(
                    component=part.component,
                    label=part.label,
                    process=part.process,
                    stream=part.stream,
                    data=part.data,
                    attempt=part.attempt,
                    offset=part.offset,
                )

    def outputs(
        self,
        job: str,
        *,
        component: str | int = "",
        is_names_only: bool = False,
        timeout: float | None = None,
    ) -> AsyncIterator[OutputPart]:
        """Stream the output files of a Finished job, one after the other.

        Each file is an empty part with its name and size, then its content in order.
        `fetch_outputs` writes them to files. Raises RejectedError where there are no files, or not
        yet.
        """
        request = pb.OutputsRequest(job=job, component=str(component), is_names_only=is_names_only)
        return until(self._outputs(request), timeout, f"outputs of {job}")

    async def _outputs(self, request: pb.OutputsRequest) -> AsyncGenerator[OutputPart, None]:
        async with aclosing(self._daemon.stream("Outputs", request)) as parts:
            async for part in parts:
                yield OutputPart(name=part.name, size_bytes=part.size_bytes, data=part.data)

    async def list_outputs(self, job: str, *, component: str | int = "") -> list[OutputFile]:
        """List the output files of a Finished job."""
        parts = self.outputs(job, component=component, is_names_only=True)
        return [OutputFile(name=part.name, size_bytes=part.size_bytes) async for part in parts]

    async def fetch_outputs(
        self,
        job: str,
        folder: str | Path,
        *,
        component: str | int = "",
        force: bool = False,
        progress: Callable[[int], None] | None = None,
        timeout: float | None = None,
    ) -> list[OutputFile]:
        """Write the output files of a Finished job to LABEL/NAME below `folder`.

        - Each file appears when it is complete. `force` replaces existing files.
        - `progress` receives the number of bytes so far, of all files.

        Raises RejectedError if a file exists, KoalaError for a truncated file, TimeLimitError after
        `timeout` seconds; files that were complete by then stay.
        """
        files = await self.list_outputs(job, component=component)
        target = prepare_folder(folder, [] if force else [file.name for file in files])
        parts = self.outputs(job, component=component, timeout=timeout)
        return await write_files(parts, target, progress)

    # --- watching ---------------------------------------------------------------------------------

    def watch(
        self,
        *,
        after: int = -1,
        job: str = "",
        site: str = "",
        is_marked: bool = False,
        timeout: float | None = None,
    ) -> AsyncIterator[Notice]:
        """Stream notices with numbers above `after`; 0: from the oldest kept, -1: only new ones.

        - With `job` the stream ends after the job's last notice, at once if it has none left.
        - Without `job` the stream does not end.
        - With `is_marked` an empty notice comes each time the watch has (re)started.
        - A daemon that goes away later is waited for; if it is away at the start, that is an
          error.

        Raises UnknownJobError, and TimeLimitError if it has not ended after `timeout` seconds.
        """
        stream = self._watch(after=after, job=job, site=site, is_marked=is_marked)
        return until(stream, timeout, f"watch of {job or 'all jobs'}")

    async def _watch(
        self, *, after: int, job: str = "", site: str = "", is_marked: bool = False
    ) -> AsyncGenerator[Notice, None]:
        async def open_stream() -> Any:  # noqa: ANN401 - gRPC's call
            request = pb.WatchRequest(after=after, job=job, site=site, in_lots=True)
            return (await self._daemon.stub()).Watch(request, metadata=self._daemon.metadata)

        async with aclosing(self._daemon.resumable(open_stream, key="koala-after")) as stream:
            async for message in stream:
                if isinstance(message, StreamOpened):
                    after = int(message.mark) if after < 0 and message.mark is not None else after
                    if is_marked:
                        yield NO_NOTICE
                    continue
                for notice in (message, *message.more):
                    after = notice.number
                    yield _notice(notice)
        if not job:  # only the watch of one job ends in order
            raise UnreachableError(f"{self.address}: the watch has ended")


def _notice(notice: pb.Notice) -> Notice:
    return Notice(
        number=notice.number,
        at=Moment.of(notice.at),
        job=notice.job,
        site=notice.site,
        phase=cast(Phase, notice.phase),
        text=notice.text,
    )


def _in_words_of(submission: Submission | Job | str, error: KoalaError) -> KoalaError:
    """Leave out places in a text that was made of a `Job`."""
    if isinstance(error, SpecError) and (job := _job_of(submission)) is not None:
        return without_places(error, job.text)
    return error


def _words_for(submission: Submission | Job | str, warnings: Iterable[str]) -> Iterable[str]:
    job = _job_of(submission)
    return warnings if job is None else [without_place(text, job.text) for text in warnings]


def _job_of(submission: Submission | Job | str) -> Job | None:
    described = submission.rsl if isinstance(submission, Submission) else submission
    return described if isinstance(described, Job) else None


class AsyncJobHandle:
    """A submitted job: its id, the warnings of its submission, and methods about it."""

    def __init__(
        self,
        client: AsyncClient,
        job: str,
        *,
        warnings: tuple[str, ...] = (),
        is_known: bool = False,
        expected: str = "",
    ) -> None:
        self._client = client
        self._job = job
        self._warnings = warnings
        self._is_known = is_known
        self._expected = expected
        self._phase = ""  # as `show` or `wait` saw it last

    def __repr__(self) -> str:
        phase = f", {self._phase}" if self._phase else ""
        return f"{type(self).__name__}({self._job!r}{phase})"

    @property
    def job(self) -> str:
        """Id of the job; empty after a dry run."""
        return self._job

    @property
    def warnings(self) -> tuple[str, ...]:
        """Warnings about the description, from its submission."""
        return self._warnings

    @property
    def is_known(self) -> bool:
        """True if the submission's key was used before: this is the job of that submission."""
        return self._is_known

    @property
    def expected(self) -> str:
        """When the job of a dry run would start, by what sites tell now; else empty."""
        return self._expected

    async def wait(self, *, timeout: float | None = None) -> TerminalPhase:
        """Wait until the job is over; return its last phase. Raises TimeLimitError."""
        self._phase = last = await self._client.wait(self._job, timeout=timeout)
        return last

    async def show(self) -> JobDetails:
        """Show all of the job."""
        details = await self._client.show(self._job)
        self._phase = details.phase
        return details

    async def why(self) -> Explanation:
        """Explain why the job waits, or how it ended."""
        return await self._client.why(self._job)

    async def timeline(self) -> JobTimeline:
        """Return the job's points A to E, the times between, and its history."""
        return await self._client.timeline(self._job)

    async def cancel(self) -> CancelResult:
        """Cancel the job. If it is over, the result has an error."""
        return (await self._client.cancel(self._job))[0]

    async def resize(self, total: int) -> JobSummary:
        """Ask for another total of processors, as `resize` of the client."""
        return await self._client.resize(self._job, total)

    def logs(
        self,
        *,
        component: str | int = "",
        stream: str = "both",
        process: int = -1,
        follow: bool = False,
        timeout: float | None = None,
    ) -> AsyncIterator[LogPart]:
        """Stream the logs of the job's programs, as `logs` of the client."""
        return self._client.logs(
            self._job,
            component=component,
            stream=stream,
            process=process,
            follow=follow,
            timeout=timeout,
        )

    def watch(self, *, after: int = -1, timeout: float | None = None) -> AsyncIterator[Notice]:
        """Stream the job's notices until it is over, as `watch` of the client."""
        return self._client.watch(after=after, job=self._job, timeout=timeout)

    async def outputs(
        self,
        folder: str | Path | None = None,
        *,
        component: str | int = "",
        force: bool = False,
        timeout: float | None = None,
    ) -> list[OutputFile]:
        """List the job's output files; with `folder`, write them below it."""
        if folder is None:
            return await self._client.list_outputs(self._job, component=component)
        return await self._client.fetch_outputs(
            self._job, folder, component=component, force=force, timeout=timeout
        )
