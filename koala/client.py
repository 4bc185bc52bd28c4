"""The Python client: the verbs of the command line as coroutines.

    async with Client() as client:
        submitted = await client.submit("&(executable=/bin/hostname)(count=4)")
        phase = await client.wait(submitted.job)

The address is the argument's, else that of KOALA_ADDRESS, else `DEFAULT_ADDRESS`. Errors are those
of `koala.errors`; where nobody listens, UnreachableError comes within `CONNECT_S`. Watching and
waiting go on over restarts of the daemon, without gap or double. What dictionaries hold is in
docs/api.md.
"""

from __future__ import annotations

import asyncio
import getpass
import json
import os
from collections.abc import AsyncIterator, Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from types import TracebackType
from typing import Any, TypeAlias, cast

import grpc

from koala.errors import KoalaError, SpecError, UnreachableError
from koala.wire import PROTOCOL
from koala.wire.status import PROTOCOL_KEY, USER_KEY, from_status, from_submitted
from koala.wire.v1 import koala_pb2 as pb
from koala.wire.v1.koala_pb2_grpc import KoalaStub

DEFAULT_ADDRESS = "127.0.0.1:7740"
ADDRESS_VARIABLE = "KOALA_ADDRESS"
CONNECT_S = 2.0
FAILING_S = 0.3  # how long a connection that failed before is given to come back
CALL_S = 60.0
BATCH_MAX = 500  # submissions in one message
RETRY_MIN_S = 0.1
RETRY_MAX_S = 2.0
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
_Notices: TypeAlias = "grpc.aio.UnaryStreamCall[pb.WatchRequest, pb.Notice]"
_Parts: TypeAlias = "grpc.aio.UnaryStreamCall[pb.LogsRequest, pb.LogPart]"
_CUT = (
    grpc.StatusCode.UNAVAILABLE,
    grpc.StatusCode.ABORTED,
    grpc.StatusCode.CANCELLED,
    grpc.StatusCode.INTERNAL,
    grpc.StatusCode.UNKNOWN,
)
"""Ends of a stream after which it is taken up again."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Submitted:
    """An accepted submission; no `job` after a dry run. `is_known`: the key was used before."""

    job: str
    warnings: tuple[str, ...] = ()
    is_known: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Submission:
    """One of several submissions; see `Client.submit`."""

    rsl: str
    definitions: Mapping[str, str] = field(default_factory=dict)
    key: str = ""
    no_wait: bool = False
    queue: str = ""


class Client:
    """A connection to a daemon. Use it in `async with`."""

    def __init__(self, address: str | None = None, *, user: str | None = None) -> None:
        self.address = address or os.environ.get(ADDRESS_VARIABLE) or DEFAULT_ADDRESS
        self._metadata = (
            (PROTOCOL_KEY, str(PROTOCOL)),
            (USER_KEY, _sendable(_user() if user is None else user)),
        )
        self._channel: grpc.aio.Channel | None = None

    async def __aenter__(self) -> Client:
        self._channel = grpc.aio.insecure_channel(self.address, options=_OPTIONS)
        return self

    async def __aexit__(
        self,
        _: type[BaseException] | None,
        __: BaseException | None,
        ___: TracebackType | None,
    ) -> None:
        if self._channel is not None:
            await self._channel.close()
            self._channel = None

    # --- jobs -------------------------------------------------------------------------------------

    async def submit(
        self,
        rsl: str,
        *,
        definitions: Mapping[str, str] | None = None,
        key: str = "",
        dry_run: bool = False,
        no_wait: bool = False,
        queue: str = "",
    ) -> Submitted:
        """Submit a job description. Raises SpecError, RejectedError.

        With `key` the same call may be made again, and gives the same job. `no_wait` refuses
        instead of delaying when the placement queues are full. `queue` is the site at whose local
        queue it is submitted: a job of one component runs there and nowhere else.
        """
        one = Submission(
            rsl=rsl, definitions=definitions or {}, key=key, no_wait=no_wait, queue=queue
        )
        result = (await self.submit_many([one], dry_run=dry_run))[0]
        if isinstance(result, KoalaError):
            raise result
        return result

    async def submit_many(
        self, submissions: Iterable[Submission | str], *, dry_run: bool = False
    ) -> list[Submitted | KoalaError]:
        """Submit several descriptions; a result for each in order, refusals among them."""
        messages = [_submission(one) for one in submissions]
        results: list[Submitted | KoalaError] = []
        for first in range(0, len(messages), BATCH_MAX):
            batch = messages[first : first + BATCH_MAX]
            request = pb.SubmitRequest(submissions=batch, dry_run=dry_run)
            reply = await self._call("Submit", request, pb.SubmitReply)
            results += [_submitted(result) for result in reply.results]
        return results

    async def cancel(self, jobs: Sequence[str] | str) -> list[Document]:
        """Cancel jobs; for each its id, phase, and an error where it could not be cancelled."""
        names = [jobs] if isinstance(jobs, str) else list(jobs)
        reply = await self._call("Cancel", pb.CancelRequest(jobs=names), pb.CancelReply)
        return [{"job": r.job, "phase": r.phase, "error": r.error} for r in reply.results]

    async def list_jobs(
        self, *, phases: Sequence[str] = (), owner: str = "", last: int = 0
    ) -> list[Document]:
        """A summary of each job, in order of submission."""
        request = pb.ListRequest(phases=phases, owner=owner, last=last)
        return list((await self._document("List", request))["jobs"])

    async def show(self, job: str) -> Document:
        """All that is known of a job. Raises UnknownJobError."""
        return await self._document("Show", pb.JobRequest(job=job))

    async def why(self, job: str) -> Document:
        """What a job waits for, in sentences: `why`."""
        return await self._document("Why", pb.JobRequest(job=job))

    async def timeline(self, job: str) -> Document:
        """A job's points A to E, the times between, and its story."""
        return await self._document("Timeline", pb.JobRequest(job=job))

    async def wait(self, job: str) -> str:
        """Wait until a job is over; its last phase. Goes on over restarts of the daemon."""
        return (await self.wait_all([job]))[job]

    async def wait_all(self, jobs: Sequence[str]) -> dict[str, str]:
        """Wait until all these jobs are over; the last phase of each. Raises UnknownJobError."""
        phases = {job: str((await self.show(job))["phase"]) for job in jobs}
        if all(phase in ENDS for phase in phases.values()):
            return phases
        only = jobs[0] if len(jobs) == 1 else ""
        async for notice in self._watch(after=-1, job=only, is_marked=True):
            if not notice:  # watching: what happened before is asked for, what comes is told
                with suppress(UnreachableError):  # the watch will begin anew, too
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
        """What a job's programs wrote, in parts that say whose they are."""
        request = pb.LogsRequest(
            job=job, component=str(component), stream=stream, process=process, follow=follow
        )
        call = cast("_Parts", self._stub().Logs(request, metadata=self._metadata))
        try:
            await self._reach()
            async for part in call:
                yield part
        except grpc.aio.AioRpcError as error:
            raise self._error(error) from error
        finally:
            call.cancel()

    # --- grid -------------------------------------------------------------------------------------

    async def sites(self) -> list[Document]:
        """Every site."""
        return list((await self._document("Sites", pb.Empty()))["sites"])

    async def change_site(self, site: str, verb: str) -> Document:
        """`drain`, `resume` or `lost`; the site as it is then. Raises UnknownSiteError."""
        return await self._document("ChangeSite", pb.SiteRequest(site=site, verb=verb))

    async def drain(self, site: str) -> Document:
        """No new claims there; what runs goes on."""
        return await self.change_site(site, "drain")

    async def resume(self, site: str) -> Document:
        """Use the site again; its errors are forgotten."""
        return await self.change_site(site, "resume")

    async def lost(self, site: str) -> Document:
        """Vouch that nothing of ours lives there any more."""
        return await self.change_site(site, "lost")

    async def files(self) -> list[Document]:
        """The replica catalogue."""
        return list((await self._document("ListFiles", pb.Empty()))["files"])

    async def metrics(self) -> Document:
        """What the daemon counts."""
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
        """What jobs have cost, a row for each `by`: user, site, day, job or claim; see docs/api.md.

        `since` and `until` are instants of the daemon's time, None for no bound; `user` and `site`
        leave out what is not of this user's jobs, or not at this site.
        """
        request = pb.ReportRequest(by=by, since=since, until=until, user=user, site=site)
        return await self._document("Report", request)

    async def hello(self) -> Document:
        """The daemon's protocol, version and epoch."""
        reply = await self._call("Hello", pb.HelloRequest(), pb.HelloReply)
        return {"protocol": reply.protocol, "version": reply.version, "epoch": reply.epoch}

    # --- watching ---------------------------------------------------------------------------------

    async def watch(
        self, *, after: int = -1, job: str = "", site: str = ""
    ) -> AsyncIterator[Document]:
        """Notices with greater numbers, as they come; 0: from the first kept, -1: only new ones.

        Without end. A daemon that goes away is waited for; only at the beginning that is an error.
        """
        async for notice in self._watch(after=after, job=job, site=site):
            yield notice

    async def _watch(
        self, *, after: int, job: str = "", site: str = "", is_marked: bool = False
    ) -> AsyncIterator[Document]:
        """The same; when marked, an empty document says each time that the watch has begun."""
        is_first, retry_s = True, RETRY_MIN_S
        while True:
            request = pb.WatchRequest(after=after, job=job, site=site)
            call = cast("_Notices", self._stub().Watch(request, metadata=self._metadata))
            try:
                await self._reach()
                began_after = _began_after(await call.initial_metadata())
                if began_after is not None:
                    after = began_after if after < 0 else after
                    is_first, retry_s = False, RETRY_MIN_S
                if is_marked:
                    yield {}
                async for notice in call:
                    after = notice.number
                    yield _notice(notice)
            except grpc.aio.AioRpcError as error:
                if is_first or error.code() not in _CUT:
                    raise self._error(error) from error
            except UnreachableError:
                if is_first:
                    raise
            finally:
                call.cancel()
            await asyncio.sleep(retry_s)
            retry_s = min(2 * retry_s, RETRY_MAX_S)

    # --- calls ------------------------------------------------------------------------------------

    def _stub(self) -> KoalaStub:
        if self._channel is None:
            raise UnreachableError("the client is not connected: use `async with Client() as ...`")
        return KoalaStub(self._channel)

    async def _reach(self) -> None:
        """Wait for the connection, for a bounded time. Raises UnreachableError."""
        assert self._channel is not None
        await self._until_ready(self._channel)

    async def _until_ready(self, channel: grpc.aio.Channel) -> None:
        state = channel.get_state(try_to_connect=True)
        was_failing = state is grpc.ChannelConnectivity.TRANSIENT_FAILURE
        while state is not grpc.ChannelConnectivity.READY:
            # gRPC stays in this state until a try succeeds; one that began now has just failed.
            if state is grpc.ChannelConnectivity.TRANSIENT_FAILURE and not was_failing:
                raise UnreachableError(self._nobody())
            limit_s = FAILING_S if was_failing else CONNECT_S
            try:
                async with asyncio.timeout(limit_s):
                    await channel.wait_for_state_change(state)
            except TimeoutError:
                raise UnreachableError(self._nobody()) from None
            was_failing = False
            state = channel.get_state(try_to_connect=True)

    def _nobody(self) -> str:
        return f"no daemon answers at {self.address} (option --address, or {ADDRESS_VARIABLE})"

    async def _call(self, method: str, request: Any, _: type[Any]) -> Any:  # noqa: ANN401
        stub = self._stub()
        try:
            await self._reach()
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
            return UnreachableError(f"{self._nobody()}: {found}")
        return found


def _user() -> str:
    try:
        return getpass.getuser()
    except (KeyError, OSError):  # an account without a name
        return str(os.getuid())


def _sendable(user: str) -> str:
    """Metadata is printable ASCII."""
    if not user.isascii() or not user.isprintable():
        raise SpecError(f"user {user!r}: allowed is printable ASCII")
    return user


def _submission(one: Submission | str) -> pb.Submission:
    if isinstance(one, str):
        return pb.Submission(rsl=one)
    return pb.Submission(
        rsl=one.rsl,
        definitions=dict(one.definitions),
        key=one.key,
        no_wait=one.no_wait,
        queue=one.queue,
    )


def _submitted(reply: pb.Submitted) -> Submitted | KoalaError:
    error = from_submitted(reply)
    if error is not None:
        return error
    return Submitted(job=reply.job, warnings=tuple(reply.warnings), is_known=reply.is_known)


def _began_after(metadata: Any) -> int | None:  # noqa: ANN401 - gRPC's metadata
    for key, value in metadata or ():
        if key == "koala-after":
            return int(value)
    return None


def _notice(notice: pb.Notice) -> Document:
    return {
        "number": notice.number,
        "at": notice.at,
        "job": notice.job,
        "site": notice.site,
        "phase": notice.phase,
        "text": notice.text,
    }
