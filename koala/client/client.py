"""The Python client: the verbs of the command line as coroutines.

    async with Client() as client:
        submitted = await client.submit("&(executable=/bin/hostname)(count=4)")
        phase = await client.wait(submitted.job)

The address is the first of these:

- the argument;
- KOALA_ADDRESS;
- the address in the user's credentials;
- a daemon of this account on this machine (of several, the one at the port of `DEFAULT_ADDRESS`;
  without one there, a ConfigError names them);
- `DEFAULT_ADDRESS`.

Errors are those of `koala.errors`. If no daemon listens, UnreachableError follows within
`CONNECT_S`. `watch`, `wait` and `logs(follow=True)` continue after a restart of the daemon, without
gaps or duplicates. docs/api.md describes the dictionaries.
"""

from __future__ import annotations

import asyncio
import getpass
import json
import os
import secrets
from collections.abc import (
    AsyncGenerator,
    AsyncIterator,
    Awaitable,
    Callable,
    Iterable,
    Mapping,
    Sequence,
)
from contextlib import aclosing, suppress
from dataclasses import dataclass, field
from types import TracebackType
from typing import Any, TypeAlias

import grpc

from koala.client.channel import DaemonEndpoint, no_answer_text
from koala.client.description import Job
from koala.client.resumable_stream import RETRY_MIN_S, StreamOpened, resumable_stream
from koala.errors import ExhaustedError, KoalaError, SpecError, UnreachableError
from koala.identity.credentials import Credentials, default_address, find_credentials, own_daemon
from koala.protocol.versions import PROTOCOL
from koala.wire.status import PROTOCOL_KEY, from_status, from_submitted
from koala.wire.v1 import koala_pb2 as pb
from koala.wire.v1.koala_pb2_grpc import KoalaStub

DEFAULT_ADDRESS = "127.0.0.1:7740"
ADDRESS_VARIABLE = "KOALA_ADDRESS"
CALL_S = 60.0
BATCH_MAX = 500  # submissions in one message
PAGE = 1_000  # jobs of a list in one message
RETRY_AFTER_S_MAX = 60.0  # upper bound of the daemon's answer
ENDS = ("Finished", "Failed", "Cancelled")

_OPTIONS: tuple[tuple[str, int], ...] = (
    ("grpc.initial_reconnect_backoff_ms", 100),
    ("grpc.min_reconnect_backoff_ms", 100),
    ("grpc.max_reconnect_backoff_ms", 1_000),
    ("grpc.use_local_subchannel_pool", 1),
    # ping_timeout bounds the detection of a dead daemon; keepalive_timeout alone leaves a minute.
    ("grpc.keepalive_time_ms", 10_000),
    ("grpc.keepalive_timeout_ms", 5_000),
    ("grpc.http2.ping_timeout_ms", 5_000),
    ("grpc.max_receive_message_length", -1),
    ("grpc.max_send_message_length", -1),
)

Document: TypeAlias = dict[str, Any]


@dataclass(frozen=True, slots=True, kw_only=True)
class Submitted:
    """An accepted submission. `job` is empty after a dry run; `is_known`: the key was reused."""

    job: str
    warnings: tuple[str, ...] = ()
    is_known: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Submission:
    """One of several submissions; see `Client.submit`."""

    rsl: str | Job
    definitions: Mapping[str, str] = field(default_factory=dict)
    key: str = ""
    no_wait: bool = False
    queue: str = ""


class Client:
    """Connection to a daemon. Use it in `async with`.

    Without `credentials` the client finds them itself (`koala.identity.credentials`). `user` names
    the caller on plain-text connections and is ignored elsewhere.
    """

    def __init__(
        self,
        address: str | None = None,
        *,
        user: str | None = None,
        credentials: Credentials | None = None,
    ) -> None:
        given = address or os.environ.get(ADDRESS_VARIABLE)
        if credentials is None:
            given = given or default_address() or own_daemon(DEFAULT_ADDRESS) or DEFAULT_ADDRESS
            credentials = find_credentials(given)
        self.address = given or (credentials and credentials.address) or DEFAULT_ADDRESS
        self._endpoint = DaemonEndpoint(self.address, credentials, options=_OPTIONS)
        self._user = _sendable(_user() if user is None else user)

    async def __aenter__(self) -> Client:
        self._endpoint.unlock()
        return self

    async def __aexit__(
        self,
        _: type[BaseException] | None,
        __: BaseException | None,
        ___: TracebackType | None,
    ) -> None:
        await self._endpoint.close()

    # --- jobs -------------------------------------------------------------------------------------

    async def submit(
        self,
        rsl: str | Job,
        *,
        definitions: Mapping[str, str] | None = None,
        key: str = "",
        dry_run: bool = False,
        no_wait: bool = False,
        queue: str = "",
        patience_s: float = 0.0,
    ) -> Submitted:
        """Submit a job description: RSL, YAML or JSON, or a `Job`.

        - `key` is an idempotency key: the same call again returns the same job.
        - `no_wait`: reject instead of delay when the placement queues are full.
        - `queue` is the site whose local queue takes the job: a job of one component runs there
          and nowhere else.
        - `patience_s`: retry for so long while the daemon has no room.

        Raises SpecError, RejectedError; ExhaustedError if there is no room after `patience_s`.
        """
        one = Submission(
            rsl=rsl, definitions=definitions or {}, key=key, no_wait=no_wait, queue=queue
        )
        results = await self.submit_many([one], dry_run=dry_run, patience_s=patience_s)
        result = results[0]
        if isinstance(result, KoalaError):
            raise result
        return result

    async def submit_many(
        self,
        submissions: Iterable[Submission | Job | str],
        *,
        dry_run: bool = False,
        patience_s: float = 0.0,
    ) -> list[Submitted | KoalaError]:
        """Submit several descriptions; return a result or an error for each, in order.

        Submissions for which the daemon has no room are retried for `patience_s` seconds, at the
        intervals that the daemon asks for.
        """
        messages = [_submission(one) for one in submissions]
        clock = asyncio.get_running_loop().time
        until = clock() + patience_s
        results = await self._submit_all(messages, dry_run=dry_run)
        while True:
            waits = {
                index: min(RETRY_AFTER_S_MAX, max(RETRY_MIN_S, result.retry_after_s or 0.0))
                for index, result in enumerate(results)
                if isinstance(result, ExhaustedError)
            }
            wait_s = max(waits.values(), default=0.0) * (1 + secrets.randbelow(1_000) / 2_000)
            if not waits or clock() + wait_s > until:
                return results
            await asyncio.sleep(wait_s)
            again = await self._submit_all([messages[index] for index in waits], dry_run=dry_run)
            for index, result in zip(waits, again, strict=True):
                results[index] = result

    async def _submit_all(
        self, messages: Sequence[pb.Submission], *, dry_run: bool
    ) -> list[Submitted | KoalaError]:
        """Submit in batches of bounded size."""
        results: list[Submitted | KoalaError] = []
        for first in range(0, len(messages), BATCH_MAX):
            batch = messages[first : first + BATCH_MAX]
            request = pb.SubmitRequest(submissions=batch, dry_run=dry_run)
            try:
                reply = await self._call("Submit", request, pb.SubmitReply)
            except ExhaustedError as error:  # refuses the whole batch
                results += [error] * len(batch)
            else:
                results += [_submitted(result) for result in reply.results]
        return results

    async def cancel(self, jobs: Sequence[str] | str) -> list[Document]:
        """Cancel jobs; return the id, phase and error (empty when cancelled) of each."""
        names = [jobs] if isinstance(jobs, str) else list(jobs)
        reply = await self._call("Cancel", pb.CancelRequest(jobs=names), pb.CancelReply)
        return [{"job": r.job, "phase": r.phase, "error": r.error} for r in reply.results]

    async def list_jobs(
        self,
        *,
        phases: Sequence[str] = (),
        owner: str = "",
        last: int = 0,
        past: bool = False,
        jobs: Sequence[str] = (),
    ) -> list[Document]:
        """List summaries of jobs in order of submission; with `past` also archived jobs.

        `jobs` restricts the list to these ids; unknown ones are left out.
        """
        found: list[Document] = []
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
            document = await self._document("List", request)
            found += document["jobs"]
            after = document.get("next") or ""
            if not after:  # also true for an older daemon, which answers without pages
                return found

    async def show(self, job: str) -> Document:
        """Return the full document of a job. Raises UnknownJobError."""
        return await self._document("Show", pb.JobRequest(job=job))

    async def why(self, job: str) -> Document:
        """Explain why a job waits or how it ended: sentences under the key `why`."""
        return await self._document("Why", pb.JobRequest(job=job))

    async def timeline(self, job: str) -> Document:
        """Return a job's points A to E, the times between, and its history."""
        return await self._document("Timeline", pb.JobRequest(job=job))

    async def wait(self, job: str) -> str:
        """Wait until a job is over; return its last phase. Continues after daemon restarts."""
        return (await self.wait_all([job]))[job]

    async def wait_all(self, jobs: Sequence[str]) -> dict[str, str]:
        """Wait until all jobs are over; return their last phases. Raises UnknownJobError."""
        phases = {job: str((await self.show(job))["phase"]) for job in jobs}
        only = jobs[0] if len(jobs) == 1 else ""
        while not all(phase in ENDS for phase in phases.values()):
            async for notice in self._watch(after=-1, job=only, is_marked=True):
                if not notice:  # the watch has started: fetch the phases of before, once
                    with suppress(UnreachableError):  # the watch reconnects and repeats this
                        for job in [job for job, phase in phases.items() if phase not in ENDS]:
                            phases[job] = str((await self.show(job))["phase"])
                elif notice["job"] in phases and notice["phase"]:
                    phases[notice["job"]] = notice["phase"]
                if all(phase in ENDS for phase in phases.values()):
                    break
        return phases

    async def logs(
        self,
        job: str,
        *,
        component: str | int = "",
        stream: str = "both",
        process: int = -1,
        follow: bool = False,
    ) -> AsyncIterator[pb.LogPart]:
        """Stream the logs of a job's programs, in labelled parts.

        With `follow` the stream continues after daemon restarts, without gaps or duplicates.
        """
        request = pb.LogsRequest(
            job=job, component=str(component), stream=stream, process=process, follow=follow
        )
        positions: dict[tuple[int, int, str], pb.LogPlace] = {}

        async def open_stream() -> Any:  # noqa: ANN401 - gRPC's call
            del request.after[:]
            request.after.extend(positions.values())
            return (await self._stub()).Logs(request, metadata=self._metadata)

        async with aclosing(self._resumable_stream(open_stream, key="koala-resumes")) as parts:
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
                yield part

    async def outputs(
        self, job: str, *, component: str | int = "", is_names_only: bool = False
    ) -> AsyncIterator[pb.OutputPart]:
        """Stream the output files of a Finished job, one after the other.

        Each file is an empty part with its name and size, then its content in order. Raises
        RejectedError where there are no files, or not yet.
        """
        request = pb.OutputsRequest(job=job, component=str(component), is_names_only=is_names_only)
        async with aclosing(self._call_stream("Outputs", request)) as parts:
            async for part in parts:
                yield part

    # --- grid -------------------------------------------------------------------------------------

    async def sites(self) -> list[Document]:
        """List the sites."""
        return list((await self._document("Sites", pb.Empty()))["sites"])

    async def change_site(self, site: str, verb: str) -> Document:
        """Apply `drain`, `resume` or `lost`; return the site's new document. Raises
        UnknownSiteError."""
        return await self._document("ChangeSite", pb.SiteRequest(site=site, verb=verb))

    async def drain(self, site: str) -> Document:
        """Stop new claims at the site; running jobs continue."""
        return await self.change_site(site, "drain")

    async def resume(self, site: str) -> Document:
        """Use the site again and reset its error count."""
        return await self.change_site(site, "resume")

    async def lost(self, site: str) -> Document:
        """Declare the site lost: the caller confirms that no program of Koala runs there."""
        return await self.change_site(site, "lost")

    async def files(self) -> list[Document]:
        """List the replica catalogue."""
        return list((await self._document("ListFiles", pb.Empty()))["files"])

    async def metrics(self) -> Document:
        """Return the daemon's metrics."""
        return await self._document("Metrics", pb.Empty())

    async def report(
        self,
        by: str = "user",
        *,
        since: float | None = None,
        until: float | None = None,
        user: str = "",
        site: str = "",
    ) -> Document:
        """Account for the cost of jobs, a row for each `by`: user, site, day, job or claim.

        `since` and `until` are instants of the daemon's clock, None for no bound. `user` and `site`
        restrict the report to the user's jobs and to the site. docs/api.md describes the rows.
        """
        request = pb.ReportRequest(by=by, since=since, until=until, user=user, site=site)
        return await self._document("Report", request)

    async def hello(self) -> Document:
        """Return the daemon's protocol, version and epoch, and the caller's user and role."""
        reply = await self._call("Hello", pb.HelloRequest(), pb.HelloReply)
        return {
            "protocol": reply.protocol,
            "version": reply.version,
            "epoch": reply.epoch,
            "user": reply.user,
            "role": reply.role,
        }

    # --- sites and users --------------------------------------------------------------------------

    async def add_site(self, name: str, *, owner: str = "", ttl_s: float = 0.0) -> Document:
        """Create a join token (`token`) for `koala-agent join`; also for a site that joined
        before. For operators."""
        request = pb.AddSiteRequest(name=name, owner=owner, ttl_s=ttl_s)
        return await self._document("AddSite", request)

    async def revoke_site(self, name: str) -> Document:
        """Close a site's link and revoke its certificates. Raises UnknownNameError."""
        return await self._document("RevokeSite", pb.NameRequest(name=name))

    async def enrolments(self) -> list[Document]:
        """List the added sites with the state of their certificates."""
        return list((await self._document("ListEnrolments", pb.Empty()))["sites"])

    async def add_user(self, name: str, *, role: str = "user", expires_s: float = 0.0) -> Document:
        """Add a user; return a `token`, shown only once."""
        message = pb.AddUserRequest(name=name, role=role, expires_s=expires_s)
        return await self._document("AddUser", message)

    async def revoke_user(self, name: str) -> Document:
        """Revoke all credentials of a user. Raises UnknownNameError."""
        return await self._document("RevokeUser", pb.NameRequest(name=name))

    async def users(self) -> list[Document]:
        """List the added users. For administrators."""
        return list((await self._document("ListUsers", pb.Empty()))["users"])

    async def audit(self, *, last: int = 0) -> list[Document]:
        """Return the newest lines of the audit log, oldest first. For administrators."""
        return list((await self._document("Audit", pb.AuditRequest(last=last)))["audit"])

    # --- watching ---------------------------------------------------------------------------------

    async def watch(
        self, *, after: int = -1, job: str = "", site: str = "", is_marked: bool = False
    ) -> AsyncIterator[Document]:
        """Stream notices with numbers above `after`; 0: from the oldest kept, -1: only new ones.

        - With `job` the stream ends after the job's last notice, at once if it has none left.
        - Without `job` the stream does not end.
        - With `is_marked` an empty document comes each time the watch has (re)started.
        - A daemon that goes away later is waited for; if it is away at the start, that is an
          error.

        Raises UnknownJobError.
        """
        stream = self._watch(after=after, job=job, site=site, is_marked=is_marked)
        async with aclosing(stream) as notices:
            async for notice in notices:
                yield notice

    async def _watch(
        self, *, after: int, job: str = "", site: str = "", is_marked: bool = False
    ) -> AsyncGenerator[Document, None]:
        """Stream as `watch`; if marked, yield an empty document each time the watch (re)starts."""

        async def open_stream() -> Any:  # noqa: ANN401 - gRPC's call
            request = pb.WatchRequest(after=after, job=job, site=site, in_lots=True)
            return (await self._stub()).Watch(request, metadata=self._metadata)

        async with aclosing(self._resumable_stream(open_stream, key="koala-after")) as stream:
            async for message in stream:
                if isinstance(message, StreamOpened):
                    after = int(message.mark) if after < 0 and message.mark is not None else after
                    if is_marked:
                        yield {}
                    continue
                for notice in (message, *message.more):
                    after = notice.number
                    yield _notice(notice)
        if not job:  # only the watch of one job ends in order
            raise UnreachableError(f"{self.address}: the watch has ended")

    # --- calls ------------------------------------------------------------------------------------

    @property
    def _metadata(self) -> tuple[tuple[str, str], ...]:
        return ((PROTOCOL_KEY, str(PROTOCOL)), *self._endpoint.metadata(self._user))

    async def _stub(self) -> KoalaStub:
        """Connect within a bounded time. Raises UnreachableError; UnauthenticatedError when either
        side rejects the other's credentials."""
        return KoalaStub(await self._endpoint.open())

    async def _resumable_stream(
        self, open_stream: Callable[[], Awaitable[Any]], *, key: str
    ) -> AsyncGenerator[Any, None]:
        """Wrap `resumable_stream` and raise its gRPC errors as KoalaError."""
        try:
            async with aclosing(resumable_stream(open_stream, key=key)) as stream:
                async for message in stream:
                    yield message
        except grpc.aio.AioRpcError as error:
            raise self._error(error) from error

    async def _call_stream(self, method: str, request: Any) -> AsyncGenerator[Any, None]:  # noqa: ANN401
        """Call a streaming method and yield its messages."""
        stub = await self._stub()
        call = getattr(stub, method)(request, metadata=self._metadata)
        try:
            async for part in call:
                yield part
        except grpc.aio.AioRpcError as error:
            raise self._error(error) from error
        finally:
            call.cancel()

    async def _call(self, method: str, request: Any, _: type[Any]) -> Any:  # noqa: ANN401
        stub = await self._stub()
        try:
            return await getattr(stub, method)(request, metadata=self._metadata, timeout=CALL_S)
        except grpc.aio.AioRpcError as error:
            raise self._error(error) from error

    async def _document(self, method: str, request: Any) -> Document:  # noqa: ANN401
        document = json.loads((await self._call(method, request, pb.Document)).json)
        assert isinstance(document, dict)
        return document

    def _error(self, error: grpc.aio.AioRpcError) -> KoalaError:
        trailing = [(str(key), value) for key, value in error.trailing_metadata() or ()]
        found = from_status(error.code(), error.details(), trailing)
        if isinstance(found, UnreachableError):
            return UnreachableError(f"{no_answer_text(self.address)}: {found}")
        return found


def _user() -> str:
    try:
        return getpass.getuser()
    except (KeyError, OSError):  # an account without a name
        return str(os.getuid())


def _sendable(user: str) -> str:
    """Check that the user name fits into metadata: printable ASCII. Raises SpecError."""
    if not user.isascii() or not user.isprintable():
        raise SpecError(f"user {user!r}: allowed is printable ASCII")
    return user


def _submission(one: Submission | Job | str) -> pb.Submission:
    if not isinstance(one, Submission):
        return pb.Submission(rsl=_text(one))
    return pb.Submission(
        rsl=_text(one.rsl),
        definitions=dict(one.definitions),
        key=one.key,
        no_wait=one.no_wait,
        queue=one.queue,
    )


def _text(description: str | Job) -> str:
    return description if isinstance(description, str) else description.text


def _submitted(reply: pb.Submitted) -> Submitted | KoalaError:
    error = from_submitted(reply)
    if error is not None:
        return error
    return Submitted(job=reply.job, warnings=tuple(reply.warnings), is_known=reply.is_known)


def _notice(notice: pb.Notice) -> Document:
    return {
        "number": notice.number,
        "at": notice.at,
        "job": notice.job,
        "site": notice.site,
        "phase": notice.phase,
        "text": notice.text,
    }
