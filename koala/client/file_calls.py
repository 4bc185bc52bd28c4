"""Calls of the asynchronous client about files that jobs read: list, add, remove."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import aclosing
from pathlib import Path

from koala.client.connection import Connection
from koala.client.uploads import LocalFile, Progress, send
from koala.common.wire.v1 import koala_pb2 as pb
from koala.errors import UnreachableError
from koala.views.records.grid import AddedFile, Files, RemovedFile, ReplicaFile


class AsyncFileCalls:
    """Calls about files; part of `AsyncClient`."""

    _daemon: Connection

    async def files(self) -> list[ReplicaFile]:
        """List the files that the caller's jobs can read."""
        return list((await self._daemon.record(Files, "ListFiles", pb.Empty())).files)

    async def add_file(
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
        local = await LocalFile.read(Path(path))
        await send(self._daemon, local, lambda here: progress(here // 2))
        request = pb.AddFileRequest(
            name=name or local.path.name,
            site=site,
            checksum=local.checksum,
            size_bytes=local.size_bytes,
            is_shared=is_shared,
        )
        whole = local.size_bytes
        return await self._added(request, lambda there: progress((whole + there) // 2))

    async def add_file_there(
        self, path: str, *, site: str, name: str = "", is_shared: bool = False
    ) -> AddedFile:
        """Add a file that is on a site's machine already, at an absolute path, as `name` (default:
        its own name). It is linked into the site's store, or copied there.

        Only where programs may read all that the agent may. Raises as `add_file` does.
        """
        request = pb.AddFileRequest(
            name=name or path.rpartition("/")[2], site=site, path=path, is_shared=is_shared
        )
        return await self._added(request)

    async def _added(
        self, request: pb.AddFileRequest, progress: Progress = lambda _: None
    ) -> AddedFile:
        """Call AddFile to its end. `progress` receives the bytes that the site has."""
        async with aclosing(self._daemon.stream("AddFile", request)) as replies:
            async for reply in replies:
                progress(reply.moved_bytes)
                if reply.is_done:
                    size_bytes = request.size_bytes or reply.moved_bytes
                    return AddedFile(file=reply.file, site=reply.site, size_bytes=size_bytes)
        raise UnreachableError(f"{self._daemon.address}: the answer was cut; the same call goes on")

    async def remove_file(self, name: str, *, site: str = "") -> RemovedFile:
        """Remove one of the caller's files from a site, or from all. Raises RejectedError."""
        request = pb.RemoveFileRequest(name=name, site=site)
        return await self._daemon.record(RemovedFile, "RemoveFile", request)
