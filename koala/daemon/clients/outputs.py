"""Output files of jobs: made visible when a job has Finished, and read for `koala outputs`.

A part is read when the one before was taken, so a client that does not read costs nothing but its
open file.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator
from dataclasses import dataclass

import structlog

from koala.core.model.job import Finished, Job
from koala.core.model.values import JobId
from koala.daemon.clients.logs import PART_BYTES_MAX, chosen_components
from koala.daemon.files.spool import EndedJob, Spool
from koala.errors import ExhaustedError, RejectedError, SpecError
from koala.files.confined_folder import Folder
from koala.runtime.disk import NO_ROOM
from koala.wire.v1 import koala_pb2 as pb

log = structlog.get_logger()

PUBLISH_AGAIN_S = 2.0
PUBLISH_S = 20.0
"""So long who asks for outputs waits until they are visible."""


class Publisher:
    """Settles what the spool has of jobs that are over, one job after the other, beside the loop.

    Its jobs are in memory only: after a restart they are given again.
    """

    def __init__(self, spool: Spool) -> None:
        self._spool = spool
        self._waiting: asyncio.Queue[EndedJob] = asyncio.Queue()
        self._unsettled: dict[str, asyncio.Event] = {}

    def settle(self, ended: EndedJob) -> None:
        """Its turn will come."""
        self._unsettled.setdefault(ended.job, asyncio.Event())
        self._waiting.put_nowait(ended)

    async def settled(self, job: JobId) -> None:
        """Returns when nothing more is to be done for the job."""
        if job in self._unsettled:
            await self._unsettled[job].wait()

    async def run(self) -> None:
        """Until cancelled."""
        while True:
            ended = await self._waiting.get()
            try:
                await asyncio.to_thread(self._spool.settle, ended)
            except (OSError, SpecError, RejectedError) as error:
                log.warning("outputs.not_published", job=ended.job, reason=str(error))
                if isinstance(error, OSError) and error.errno in NO_ROOM:
                    await asyncio.sleep(PUBLISH_AGAIN_S)
                    self._waiting.put_nowait(ended)
                    continue
            settled = self._unsettled.pop(ended.job, None)
            if settled is not None:
                settled.set()


@dataclass(frozen=True, slots=True, kw_only=True)
class OutputsWanted:
    """Of a job that has Finished: of which components, by label (None: of all), and whether only
    the names."""

    job: JobId
    components: dict[int, str] | None
    is_names_only: bool

    @classmethod
    def of(cls, request: pb.OutputsRequest, job: Job) -> OutputsWanted:
        """As a client asks. Raises SpecError, RejectedError when there are none to come."""
        chosen = chosen_components(job, request.component)
        if not isinstance(job.phase, Finished):
            known = "only a job that Finished has" if job.is_over else "when it has Finished it has"
            raise RejectedError(f"{job.id} is {job.phase_name}: {known} output files")
        labels = {index: job.spec.label(index) for index in chosen}
        return cls(
            job=job.id,
            components=labels if request.component else None,
            is_names_only=request.is_names_only,
        )


class Outputs:
    """Reads what the spool has published."""

    def __init__(self, spool: Spool, publisher: Publisher) -> None:
        self._spool = spool
        self._publisher = publisher

    async def read(self, wanted: OutputsWanted) -> AsyncGenerator[pb.OutputPart, None]:
        """All files in order of name. Raises UnusableFileError when one goes meanwhile,
        ExhaustedError when they are not visible after `PUBLISH_S`, as on a full disk."""
        try:
            async with asyncio.timeout(PUBLISH_S):
                await self._publisher.settled(wanted.job)
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
