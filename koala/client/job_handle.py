"""Handle of one job: the client's methods about it, without its id."""

from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path
from typing import TYPE_CHECKING

from koala.client.records import (
    CancelResult,
    Explanation,
    JobDetails,
    JobTimeline,
    LogPart,
    Notice,
    OutputFile,
)

if TYPE_CHECKING:
    from koala.client.client import AsyncClient


class AsyncJobHandle:
    """A submitted job: its id, the warnings of its submission, and methods about it."""

    def __init__(
        self,
        client: AsyncClient,
        job: str,
        *,
        warnings: tuple[str, ...] = (),
        is_known: bool = False,
    ) -> None:
        self._client = client
        self._job = job
        self._warnings = warnings
        self._is_known = is_known

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self._job!r})"

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

    async def wait(self, *, timeout: float | None = None) -> str:
        """Wait until the job is over; return its last phase. Raises TimeLimitError."""
        return await self._client.wait(self._job, timeout=timeout)

    async def show(self) -> JobDetails:
        """Show all of the job."""
        return await self._client.show(self._job)

    async def why(self) -> Explanation:
        """Explain why the job waits, or how it ended."""
        return await self._client.why(self._job)

    async def timeline(self) -> JobTimeline:
        """Return the job's points A to E, the times between, and its history."""
        return await self._client.timeline(self._job)

    async def cancel(self) -> CancelResult:
        """Cancel the job. If it is over, the result has an error."""
        return (await self._client.cancel(self._job))[0]

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
