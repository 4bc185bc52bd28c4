"""The synchronous client: the methods of `AsyncClient`, without `await`.

    with Client() as client:
        job = client.submit("&(executable=/bin/hostname)(count=4)")
        phase = job.wait()

Works in scripts, in threads, and in notebooks.
"""

from __future__ import annotations

from html import escape
from types import TracebackType
from typing import TypeVar

from koala.client.background import LOOP, blocking, blocking_as, iterating
from koala.client.client import AsyncClient, AsyncJobHandle
from koala.client.connection import CALL_S
from koala.common.identity.credentials import Credentials
from koala.errors import KoalaError

__all__ = ["Client", "JobHandle"]

C = TypeVar("C", bound="Client")


class JobHandle:
    """A submitted job: its id, the warnings of its submission, and methods about it."""

    def __init__(self, inner: AsyncJobHandle) -> None:
        self._inner = inner

    def __repr__(self) -> str:
        return repr(self._inner).removeprefix("Async")

    def _repr_html_(self) -> str:
        """Show the job as it is now in a notebook."""
        try:
            return self.show()._repr_html_()
        except KoalaError as error:
            return escape(f"{self!r}: {error}")

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

    @property
    def expected(self) -> str:
        """When the job of a dry run would start, by what sites tell now; else empty."""
        return self._inner.expected

    wait = blocking(AsyncJobHandle.wait)
    show = blocking(AsyncJobHandle.show)
    why = blocking(AsyncJobHandle.why)
    timeline = blocking(AsyncJobHandle.timeline)
    cancel = blocking(AsyncJobHandle.cancel)
    resize = blocking(AsyncJobHandle.resize)
    logs = iterating(AsyncJobHandle.logs)
    watch = iterating(AsyncJobHandle.watch)
    outputs = blocking(AsyncJobHandle.outputs)


def _handles(results: list[AsyncJobHandle | KoalaError]) -> list[JobHandle | KoalaError]:
    return [
        JobHandle(result) if isinstance(result, AsyncJobHandle) else result for result in results
    ]


class Client:
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
        self._inner = AsyncClient(address, user=user, credentials=credentials, timeout=timeout)
        LOOP.run(self._inner.__aenter__())

    def __enter__(self: C) -> C:
        return self

    def __exit__(
        self,
        _: type[BaseException] | None,
        __: BaseException | None,
        ___: TracebackType | None,
    ) -> None:
        self.close()

    def close(self) -> None:
        """Close the connection. The client also closes at the end of `with`."""
        LOOP.run(self._inner.__aexit__(None, None, None))

    @property
    def address(self) -> str:
        """Address of the daemon."""
        return self._inner.address

    @property
    def credentials_source(self) -> str:
        """Place where the credentials were found; may be empty before the first call."""
        return self._inner.credentials_source

    def job(self, job: str) -> JobHandle:
        """Make a handle of the job with this id; the daemon is not asked."""
        return JobHandle(self._inner.job(job))

    submit = blocking_as(JobHandle, AsyncClient.submit)
    submit_many = blocking_as(_handles, AsyncClient.submit_many)
    cancel = blocking(AsyncClient.cancel)
    resize = blocking(AsyncClient.resize)
    list_jobs = blocking(AsyncClient.list_jobs)
    show = blocking(AsyncClient.show)
    why = blocking(AsyncClient.why)
    timeline = blocking(AsyncClient.timeline)
    wait = blocking(AsyncClient.wait)
    wait_all = blocking(AsyncClient.wait_all)
    logs = iterating(AsyncClient.logs)
    outputs = iterating(AsyncClient.outputs)
    list_outputs = blocking(AsyncClient.list_outputs)
    fetch_outputs = blocking(AsyncClient.fetch_outputs)
    watch = iterating(AsyncClient.watch)

    hello = blocking(AsyncClient.hello)
    sites = blocking(AsyncClient.sites)
    change_site = blocking(AsyncClient.change_site)
    drain = blocking(AsyncClient.drain)
    resume = blocking(AsyncClient.resume)
    lost = blocking(AsyncClient.lost)
    metrics = blocking(AsyncClient.metrics)
    queues = blocking(AsyncClient.queues)
    grid_timeline = blocking(AsyncClient.grid_timeline)
    report = blocking(AsyncClient.report)
    add_site = blocking(AsyncClient.add_site)
    revoke_site = blocking(AsyncClient.revoke_site)
    enrolments = blocking(AsyncClient.enrolments)
    add_user = blocking(AsyncClient.add_user)
    revoke_user = blocking(AsyncClient.revoke_user)
    notifications = blocking(AsyncClient.notifications)
    renew_token = blocking(AsyncClient.renew_token)
    set_user = blocking(AsyncClient.set_user)
    set_group = blocking(AsyncClient.set_group)
    remove_group = blocking(AsyncClient.remove_group)
    groups = blocking(AsyncClient.groups)
    users = blocking(AsyncClient.users)
    audit = blocking(AsyncClient.audit)

    files = blocking(AsyncClient.files)
    add_file = blocking(AsyncClient.add_file)
    add_file_there = blocking(AsyncClient.add_file_there)
    remove_file = blocking(AsyncClient.remove_file)
