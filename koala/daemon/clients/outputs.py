"""Output files of jobs: published when a job has Finished, and read for `koala outputs`.

A part is read once the client has read the one before, so a client that does not read costs only
its open file.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator
from dataclasses import dataclass

from koala.common.files.confined_folder import Folder
from koala.common.runtime.disk_space import NO_ROOM
from koala.common.runtime.structured_log import get_logger
from koala.common.wire.v1 import koala_pb2 as pb
from koala.core.model.job import Finished, Job
from koala.core.model.values import JobId
from koala.daemon.clients.logs import PART_BYTES_MAX, chosen_components
from koala.daemon.files.spool import EndedJob, Spool
from koala.errors import ExhaustedError, RejectedError, SpecError

log = get_logger()

PUBLISH_AGAIN_S = 2.0
PUBLISH_S = 20.0
"""Longest wait of a reader for outputs to be published."""


class Publisher:
    """Background task that publishes or deletes outputs of ended jobs, one job at a time.

    Its queue is in memory only; after a restart the jobs are queued again.
    """

    def __init__(self, spool: Spool) -> None:
        self._spool = spool
        self._waiting: asyncio.Queue[EndedJob] = asyncio.Queue()
        self._pending: dict[str, asyncio.Event] = {}

    def enqueue(self, ended: EndedJob) -> None:
        """Enqueue an ended job."""
        self._pending.setdefault(ended.job, asyncio.Event())
        self._waiting.put_nowait(ended)

    async def wait_for(self, job: JobId) -> None:
        """Wait until nothing is queued for the job."""
        if job in self._pending:
            await self._pending[job].wait()

    async def run(self) -> None:
        """Process the queue until cancelled; retry on a full disk."""
        while True:
            ended = await self._waiting.get()
            try:
                await asyncio.to_thread(self._spool.finish, ended)
            except (OSError, SpecError, RejectedError) as error:
                log.warning("outputs.not_published", job=ended.job, reason=str(error))
                if isinstance(error, OSError) and error.errno in NO_ROOM:
                    await asyncio.sleep(PUBLISH_AGAIN_S)
                    self._waiting.put_nowait(ended)
                    continue
            published = self._pending.pop(ended.job, None)
            if published is not None:
                published.set()


@dataclass(frozen=True, slots=True, kw_only=True)
class OutputsWanted:
    """Query for outputs of a Finished job.

    `components` selects by index and label (None: all).
    """

    job: JobId
    components: dict[int, str] | None
    is_names_only: bool

    @classmethod
    def of(cls, request: pb.OutputsRequest, job: Job) -> OutputsWanted:
        """Parse a client's request. Raises SpecError, RejectedError for a job that has not
        Finished."""
        chosen = chosen_components(job, request.component)
        if not isinstance(job.phase, Finished):
            known = (
                "only a job that Finished has" if job.has_ended else "when it has Finished it has"
            )
            raise RejectedError(f"{job.id} is {job.phase_name}: {known} output files")
        labels = {index: job.spec.label(index) for index in chosen}
        return cls(
            job=job.id,
            components=labels if request.component else None,
            is_names_only=request.is_names_only,
        )


class Outputs:
    """Reader of published outputs."""

    def __init__(self, spool: Spool, publisher: Publisher) -> None:
        self._spool = spool
        self._publisher = publisher

    async def read(self, wanted: OutputsWanted) -> AsyncGenerator[pb.OutputPart, None]:
        """Yield all files in order of name.

        Raises UnusableFileError when one disappears meanwhile, and ExhaustedError when they are not
        published within `PUBLISH_S`, as on a full disk.
        """
        try:
            async with asyncio.timeout(PUBLISH_S):
                await self._publisher.wait_for(wanted.job)
        except TimeoutError as error:
            raise ExhaustedError(
                f"the outputs of {wanted.job} are not published yet: the daemon's disk may be full",
                retry_after_s=PUBLISH_S,
            ) from error
        folder, files = await asyncio.to_thread(
            self._spool.published_files, wanted.job, wanted.components
        )
        for name, size_bytes in files:
            yield pb.OutputPart(name=name, size_bytes=size_bytes)
            if not wanted.is_names_only:
                async for data in _content(folder, name):
                    yield pb.OutputPart(name=name, size_bytes=size_bytes, data=data)


async def _content(folder: Folder, name: str) -> AsyncGenerator[bytes, None]:
    file = await asyncio.to_thread(folder.open, name)
    try:
        offset = 0
        while data := await asyncio.to_thread(file.read, PART_BYTES_MAX, offset):
            offset += len(data)
            yield data
    finally:
        file.close()
