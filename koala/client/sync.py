"""The synchronous client: the methods of `AsyncClient`, without `await`.

    with Client() as client:
        job = client.submit("&(executable=/bin/hostname)(count=4)")
        phase = job.wait()

Works in scripts, in threads, and in notebooks. Written by tests/client/twin.py: never edited.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from datetime import datetime
from pathlib import Path

from koala.client.background import ClientBase, Twin
from koala.client.client import AsyncClient
from koala.client.connection import CALL_S
from koala.client.description import Job
from koala.client.job_handle import AsyncJobHandle
from koala.client.records import (
    AddedFile,
    AuditLine,
    CancelResult,
    DaemonInfo,
    Enrolment,
    Explanation,
    JobDetails,
    JobSummary,
    JobTimeline,
    LogPart,
    Metrics,
    Notice,
    OutputFile,
    OutputPart,
    Queues,
    RemovedFile,
    ReplicaFile,
    Report,
    SiteStatus,
    User,
)
from koala.client.submission import Submission
from koala.errors import KoalaError
from koala.identity.credentials import Credentials

__all__ = ["Client", "JobHandle"]


class JobHandle(Twin):
    """A submitted job: its id, the warnings of its submission, and methods about it."""

    def __init__(self, inner: AsyncJobHandle) -> None:
        self._inner = inner

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self.job!r})"

    @property
    def job(self) -> str:
        """Id of the job; empty after a dry run."""
        return self._inner.job

    @property
    def warnings(self) -> tuple[str, ...]:
        """Warnings about the description, from its submission."""
        return self._inner.warnings

    @property
    def is_known(self) -> bool:
        """True if the submission's key was used before: this is the job of that submission."""
        return self._inner.is_known

    def wait(self, *, timeout: float | None = None) -> str:
        """Wait until the job is over; return its last phase. Raises TimeLimitError."""
        return self._run(self._inner.wait(timeout=timeout))

    def show(self) -> JobDetails:
        """Show all of the job."""
        return self._run(self._inner.show())

    def why(self) -> Explanation:
        """Explain why the job waits, or how it ended."""
        return self._run(self._inner.why())

    def timeline(self) -> JobTimeline:
        """Return the job's points A to E, the times between, and its history."""
        return self._run(self._inner.timeline())

    def cancel(self) -> CancelResult:
        """Cancel the job. If it is over, the result has an error."""
        return self._run(self._inner.cancel())

    def logs(
        self,
        *,
        component: str | int = "",
        stream: str = "both",
        process: int = -1,
        follow: bool = False,
        timeout: float | None = None,
    ) -> Iterator[LogPart]:
        """Stream the logs of the job's programs, as `logs` of the client."""
        return self._iterate(
            self._inner.logs(
                component=component, stream=stream, process=process, follow=follow, timeout=timeout
            )
        )

    def watch(self, *, after: int = -1, timeout: float | None = None) -> Iterator[Notice]:
        """Stream the job's notices until it is over, as `watch` of the client."""
        return self._iterate(self._inner.watch(after=after, timeout=timeout))

    def outputs(
        self,
        folder: str | Path | None = None,
        *,
        component: str | int = "",
        force: bool = False,
        timeout: float | None = None,
    ) -> list[OutputFile]:
        """List the job's output files; with `folder`, write them below it."""
        return self._run(
            self._inner.outputs(folder, component=component, force=force, timeout=timeout)
        )


class Client(ClientBase):
    """Connection to a daemon, opened at once. `close` closes it, or the end of `with`.

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
        self._open(AsyncClient(address, user=user, credentials=credentials, timeout=timeout))

    @property
    def address(self) -> str:
        """Address of the daemon."""
        return self._inner.address

    @property
    def credentials_source(self) -> str:
        """Place where the credentials were found; may be empty before the first call."""
        return self._inner.credentials_source

    def submit(
        self,
        rsl: str | Job,
        *,
        definitions: Mapping[str, str] | None = None,
        key: str = "",
        dry_run: bool = False,
        no_wait: bool = False,
        queue: str = "",
        after: Sequence[str] = (),
        patience_s: float = 0.0,
    ) -> JobHandle:
        """Submit a job description: RSL, YAML or JSON, or a `Job`. Return a handle of the job.

        - `key` is an idempotency key: the same call again returns the same job.
        - `dry_run`: only check the description; the handle then names no job.
        - `no_wait`: reject instead of delay when the placement queues are full.
        - `queue` is the site whose local queue takes the job: a job of one component runs there
          and nowhere else.
        - `after`: jobs that must have ended before this one is placed, as `j12`, or `j12:any` where
          any end will do; beside those that the description names.
        - `patience_s`: retry for so long while the daemon has no room.

        Raises SpecError, RejectedError; ExhaustedError if there is no room after `patience_s`.
        """
        return JobHandle(
            self._run(
                self._inner.submit(
                    rsl,
                    definitions=definitions,
                    key=key,
                    dry_run=dry_run,
                    no_wait=no_wait,
                    queue=queue,
                    after=after,
                    patience_s=patience_s,
                )
            )
        )

    def submit_many(
        self,
        submissions: Iterable[Submission | Job | str],
        *,
        dry_run: bool = False,
        patience_s: float = 0.0,
    ) -> list[JobHandle | KoalaError]:
        """Submit several descriptions; return a handle or an error for each, in order.

        Submissions for which the daemon has no room are retried for `patience_s` seconds, at the
        intervals that the daemon asks for.
        """
        return [
            JobHandle(one) if isinstance(one, AsyncJobHandle) else one
            for one in self._run(
                self._inner.submit_many(submissions, dry_run=dry_run, patience_s=patience_s)
            )
        ]

    def job(self, job: str) -> JobHandle:
        """Make a handle of the job with this id; the daemon is not asked."""
        return JobHandle(self._inner.job(job))

    def cancel(self, jobs: Sequence[str] | str) -> list[CancelResult]:
        """Cancel jobs. A job that is over stays unchanged, and its result has an error."""
        return self._run(self._inner.cancel(jobs))

    def list_jobs(
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
        return self._run(
            self._inner.list_jobs(phases=phases, owner=owner, last=last, past=past, jobs=jobs)
        )

    def show(self, job: str) -> JobDetails:
        """Show all of one job. Raises UnknownJobError."""
        return self._run(self._inner.show(job))

    def why(self, job: str) -> Explanation:
        """Explain why a job waits or how it ended; the text of the answer is the explanation."""
        return self._run(self._inner.why(job))

    def timeline(self, job: str) -> JobTimeline:
        """Return a job's points A to E, the times between, and its history."""
        return self._run(self._inner.timeline(job))

    def wait(self, job: str, *, timeout: float | None = None) -> str:
        """Wait until a job is over; return its last phase: Finished, Failed or Cancelled.

        The job continues if `timeout` seconds pass: TimeLimitError, which is a TimeoutError.
        """
        return self._run(self._inner.wait(job, timeout=timeout))

    def wait_all(self, jobs: Sequence[str], *, timeout: float | None = None) -> dict[str, str]:
        """Wait until all jobs are over; return their last phases. Raises UnknownJobError, and
        TimeLimitError after `timeout` seconds."""
        return self._run(self._inner.wait_all(jobs, timeout=timeout))

    def logs(
        self,
        job: str,
        *,
        component: str | int = "",
        stream: str = "both",
        process: int = -1,
        follow: bool = False,
        timeout: float | None = None,
    ) -> Iterator[LogPart]:
        """Stream the logs of a job's programs, in labelled parts.

        - `component` is an index or a label; `stream` is stdout, stderr or both; `process` is -1
          for all processes.
        - With `follow` the stream continues until the job is over, also after restarts of the
          daemon, without gaps or duplicates.

        Raises TimeLimitError if the stream has not ended after `timeout` seconds.
        """
        return self._iterate(
            self._inner.logs(
                job,
                component=component,
                stream=stream,
                process=process,
                follow=follow,
                timeout=timeout,
            )
        )

    def outputs(
        self,
        job: str,
        *,
        component: str | int = "",
        is_names_only: bool = False,
        timeout: float | None = None,
    ) -> Iterator[OutputPart]:
        """Stream the output files of a Finished job, one after the other.

        Each file is an empty part with its name and size, then its content in order.
        `fetch_outputs` writes them to files. Raises RejectedError where there are no files, or not
        yet.
        """
        return self._iterate(
            self._inner.outputs(
                job, component=component, is_names_only=is_names_only, timeout=timeout
            )
        )

    def list_outputs(self, job: str, *, component: str | int = "") -> list[OutputFile]:
        """List the output files of a Finished job."""
        return self._run(self._inner.list_outputs(job, component=component))

    def fetch_outputs(
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
        return self._run(
            self._inner.fetch_outputs(
                job, folder, component=component, force=force, progress=progress, timeout=timeout
            )
        )

    def watch(
        self,
        *,
        after: int = -1,
        job: str = "",
        site: str = "",
        is_marked: bool = False,
        timeout: float | None = None,
    ) -> Iterator[Notice]:
        """Stream notices with numbers above `after`; 0: from the oldest kept, -1: only new ones.

        - With `job` the stream ends after the job's last notice, at once if it has none left.
        - Without `job` the stream does not end.
        - With `is_marked` an empty notice comes each time the watch has (re)started.
        - A daemon that goes away later is waited for; if it is away at the start, that is an
          error.

        Raises UnknownJobError, and TimeLimitError if it has not ended after `timeout` seconds.
        """
        return self._iterate(
            self._inner.watch(after=after, job=job, site=site, is_marked=is_marked, timeout=timeout)
        )

    def hello(self) -> DaemonInfo:
        """Return the daemon's protocol, version and epoch, and the caller's user and role."""
        return self._run(self._inner.hello())

    def sites(self) -> list[SiteStatus]:
        """List the sites."""
        return self._run(self._inner.sites())

    def change_site(self, site: str, verb: str) -> SiteStatus:
        """Apply `drain`, `resume` or `lost`; return the changed site. Raises UnknownSiteError."""
        return self._run(self._inner.change_site(site, verb))

    def drain(self, site: str) -> SiteStatus:
        """Stop new claims at the site; running jobs continue."""
        return self._run(self._inner.drain(site))

    def resume(self, site: str) -> SiteStatus:
        """Use the site again and reset its error count."""
        return self._run(self._inner.resume(site))

    def lost(self, site: str) -> SiteStatus:
        """Declare the site lost: the caller confirms that no program of Koala runs there."""
        return self._run(self._inner.lost(site))

    def metrics(self) -> Metrics:
        """Return the daemon's metrics."""
        return self._run(self._inner.metrics())

    def queues(self) -> Queues:
        """Show the placement queues with the jobs at their heads."""
        return self._run(self._inner.queues())

    def report(
        self,
        by: str = "user",
        *,
        since: datetime | float | None = None,
        until: datetime | float | None = None,
        user: str = "",
        site: str = "",
    ) -> Report:
        """Account for the cost of jobs, a row for each `by`: user, site, day, job or claim.

        `since` and `until` are instants, as datetimes or in seconds of the epoch, None for no
        bound. `user` and `site` restrict the report to the user's jobs and to the site.
        """
        return self._run(self._inner.report(by, since=since, until=until, user=user, site=site))

    def add_site(self, name: str, *, owner: str = "", ttl_s: float = 0.0) -> Enrolment:
        """Create a join token (`token`) for `koala-agent join`; also for a site that joined
        before. For operators."""
        return self._run(self._inner.add_site(name, owner=owner, ttl_s=ttl_s))

    def revoke_site(self, name: str) -> Enrolment:
        """Close a site's link and revoke its certificates. Raises UnknownNameError."""
        return self._run(self._inner.revoke_site(name))

    def enrolments(self) -> list[Enrolment]:
        """List the added sites with the state of their certificates."""
        return self._run(self._inner.enrolments())

    def add_user(self, name: str, *, role: str = "user", expires_s: float = 0.0) -> User:
        """Add a user; return a `token`, shown only once."""
        return self._run(self._inner.add_user(name, role=role, expires_s=expires_s))

    def revoke_user(self, name: str) -> User:
        """Revoke all credentials of a user. Raises UnknownNameError."""
        return self._run(self._inner.revoke_user(name))

    def users(self) -> list[User]:
        """List the added users. For administrators."""
        return self._run(self._inner.users())

    def audit(self, *, last: int = 0) -> list[AuditLine]:
        """Return the newest lines of the audit log, oldest first. For administrators."""
        return self._run(self._inner.audit(last=last))

    def files(self) -> list[ReplicaFile]:
        """List the files that the caller's jobs can read."""
        return self._run(self._inner.files())

    def add_file(
        self,
        path: str | Path,
        *,
        name: str = "",
        site: str = "",
        is_shared: bool = False,
        progress: Callable[[int], None] = lambda _: None,
    ) -> AddedFile:
        """Add a file of this machine to a site, as `name` (default: its own name).

        - `site`: without one the daemon chooses the largest that is connected.
        - `is_shared`: everybody's jobs may read it.
        - `progress` receives the bytes that have arrived: half of them count in the daemon, and
          half at the site.

        Raises SpecError, RejectedError, ExhaustedError, UnknownSiteError.
        """
        return self._run(
            self._inner.add_file(path, name=name, site=site, is_shared=is_shared, progress=progress)
        )

    def add_file_there(
        self, path: str, *, site: str, name: str = "", is_shared: bool = False
    ) -> AddedFile:
        """Add a file that is on a site's machine already, at an absolute path, as `name` (default:
        its own name). It is linked into the site's store, or copied there.

        Only where programs may read all that the agent may. Raises as `add_file` does.
        """
        return self._run(
            self._inner.add_file_there(path, site=site, name=name, is_shared=is_shared)
        )

    def remove_file(self, name: str, *, site: str = "") -> RemovedFile:
        """Remove one of the caller's files from a site, or from all. Raises RejectedError."""
        return self._run(self._inner.remove_file(name, site=site))
