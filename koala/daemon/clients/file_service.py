"""Calls of clients about files: upload, add to a site, list, remove.

A user's files have names below `~USER/`, those below `~USER/shared/` can be read by everybody. So a
name says whose a file is, also after a loss of the daemon's state; other names are the sites' own.
"""

from __future__ import annotations

import asyncio
import hashlib
from collections.abc import AsyncGenerator, AsyncIterator, Mapping
from contextlib import aclosing
from dataclasses import dataclass, field

from msgspec.structs import replace

from koala.common.files.exchange import CutError, SpoiltError, first_of, receive
from koala.common.files.names import check_name, own_prefix, shown
from koala.common.protocol.names import SHARED
from koala.common.wire.v1 import koala_pb2 as pb
from koala.common.wire.v1.files_pb2 import Frame, PutDown
from koala.core.model.grid import Site
from koala.core.model.values import FileName, SiteName, UserName
from koala.core.scheduler import Scheduler
from koala.daemon.auth.access_rules import Caller
from koala.daemon.clients.input_names import may_read
from koala.daemon.files.additions import Additions
from koala.daemon.files.uploads import Content, Uploads, content_of
from koala.daemon.loop.event_loop import EventLoop
from koala.daemon.loop.group_commit import BatchContext
from koala.errors import ExhaustedError, RejectedError, SpecError, UnknownSiteError
from koala.views.documents import files_document
from koala.views.records import grid

STALLED_S = 60.0
REPLY_S = 1.0
"""Longest time between two replies about an addition."""
REMOVED_S = 20.0
SWEEP_S = 3600.0
KEPT_S = 24 * 3600.0
"""Time for which an upload is kept after its last use."""
NAMES_MAX = 5


@dataclass(frozen=True, kw_only=True)
class FileService:
    """Answers calls about files. `bytes_max` bounds the files that one user has at all sites."""

    event_loop: EventLoop
    scheduler: Scheduler
    uploads: Uploads
    additions: Additions
    bytes_max: float
    _uploading: set[str] = field(default_factory=set)

    async def run(self) -> None:
        """Delete old uploads periodically, until cancelled."""
        while True:
            kept = await self.event_loop.ask(_archives)
            await asyncio.to_thread(self.uploads.sweep, KEPT_S, kept=kept)
            await asyncio.sleep(SWEEP_S)

    async def upload(
        self, messages: AsyncIterator[Frame], user: str
    ) -> AsyncGenerator[PutDown, None]:
        """Receive a content into the spool, from the byte on that is missing. Raises SpecError,
        ExhaustedError, RejectedError for a wrong checksum."""
        _require_name(user)
        try:
            start = await first_of(messages, STALLED_S)
            content = Content(user=user, checksum=start.name, size_bytes=start.size_bytes)
            if await asyncio.to_thread(self.uploads.find, content) is not None:
                yield PutDown(offset=content.size_bytes, is_done=True)
                return
            async with aclosing(self._receive(messages, content)) as answers:
                async for answer in answers:
                    yield answer
        except CutError as error:
            raise RejectedError(f"{error}; the same call again goes on there") from error
        except SpoiltError as error:
            raise RejectedError(f"{error}: did the file change while it was read?") from error
        yield PutDown(offset=content.size_bytes, is_done=True)

    async def _receive(
        self, messages: AsyncIterator[Frame], content: Content
    ) -> AsyncGenerator[PutDown, None]:
        if content.key in self._uploading:
            raise ExhaustedError("the same file is being uploaded already", retry_after_s=REPLY_S)
        self._uploading.add(content.key)
        try:
            part = await asyncio.to_thread(self.uploads.begin, content)
            answers = receive(
                messages,
                part,
                content.size_bytes,
                admit=self._admit,
                stalled_s=STALLED_S,
                checksum=content.checksum,
            )
            async with aclosing(answers):
                async for answer in answers:
                    yield answer
            await asyncio.to_thread(self.uploads.finish, content, part)
        finally:
            self._uploading.discard(content.key)

    async def _admit(self, size_bytes: int) -> None:
        self.uploads.require_room(size_bytes)

    async def add(
        self, request: pb.AddFileRequest, caller: Caller
    ) -> AsyncGenerator[pb.AddFileReply, None]:
        """Put an uploaded content into the store of a site; yield how far it is, and the end.

        Raises SpecError, RejectedError, UnknownSiteError, ExhaustedError.
        """
        _require_name(caller.name)
        name = own_prefix(caller.name) + (SHARED if request.is_shared else "") + request.name
        check_name(request.name)
        check_name(name)
        if request.name.startswith("~"):
            raise SpecError(f"file name {shown(request.name)} (expected one without `~` in front)")
        content = Content(
            user=caller.name, checksum=request.checksum, size_bytes=request.size_bytes
        )
        if request.path:
            if not request.site:
                raise SpecError(
                    "a file that is at a site already, without --site (expected the site where it"
                    " is)"
                )
            named = hashlib.sha256(request.path.encode()).hexdigest()
            content = Content(user=caller.name, checksum=named, size_bytes=0)
        site, is_there = await self.event_loop.ask(
            lambda batch: self._check_addition(batch, FileName(name), content, request.site)
        )
        if is_there:
            yield pb.AddFileReply(file=name, site=site, is_done=True)
            return
        if not request.path and await asyncio.to_thread(self.uploads.find, content) is None:
            raise RejectedError(f"{shown(request.name)} was not uploaded: Upload comes first")
        with self.additions.adding(site, content, name, request.path) as addition:
            while not addition.is_over:
                yield pb.AddFileReply(file=name, site=site, moved_bytes=addition.moved_bytes)
                addition.changed.clear()
                try:
                    async with asyncio.timeout(REPLY_S):
                        await addition.changed.wait()
                except TimeoutError:
                    self._require_connected(site, name)
        if addition.problem:
            raise RejectedError(
                f"{shown(request.name)} was not added at {site}: {addition.problem}"
            )
        yield pb.AddFileReply(file=name, site=site, moved_bytes=addition.moved_bytes, is_done=True)

    def _require_connected(self, site: SiteName, name: str) -> None:
        known = self.scheduler.sites.get(site)
        if known is None or not known.is_connected:
            raise RejectedError(
                f"{site} is disconnected: {shown(name)} is added if it comes back within a minute,"
                " or by the same command later"
            )

    def _check_addition(
        self, batch: BatchContext, name: FileName, content: Content, wanted: str
    ) -> tuple[SiteName, bool]:
        """Choose the site; True when it has the file already. Raises as `add` does."""
        scheduler = batch.scheduler
        site = _chosen_site(scheduler.sites, UserName(content.user), wanted)
        known = scheduler.replicas.get(name)
        if known is not None and known.checksum != content.checksum:
            raise RejectedError(
                f"{shown(name)} exists with another content, at {', '.join(known.sites)}: remove it"
                " first (koala files remove), or choose another name (--as)"
            )
        if known is not None and site in known.sites:
            return site, True
        prefix = own_prefix(content.user)
        used = sum(
            replica.size_bytes * len(replica.sites)
            for file, replica in scheduler.replicas.items()
            if file.startswith(prefix)
        )
        if used + content.size_bytes > self.bytes_max:
            raise RejectedError(
                f"{content.size_bytes} bytes more than the {used} that {content.user} has at all"
                f" sites (expected at most {self.bytes_max:.0f} in all: limits.files_mb_per_user);"
                " `koala files remove` makes room"
            )
        return site, False

    def visible(self, batch: BatchContext, caller: Caller) -> grid.Files:
        """List the catalogue as a caller sees it: the files that it may read, at its sites."""
        user = UserName(caller.name)
        sees_all = caller.sees("")
        sites = batch.scheduler.sites.values()
        seen = {site.name for site in sites if sees_all or site.facts.admits(user)}
        files = [
            replace(file, sites=tuple(site for site in file.sites if site in seen))
            for file in files_document(batch.scheduler)
            if sees_all or may_read(caller.name, file.file)
        ]
        return grid.Files(files=tuple(file for file in files if file.sites or sees_all))

    async def remove(self, request: pb.RemoveFileRequest, caller: Caller) -> grid.RemovedFile:
        """Remove a user's file from one site, or from all; return where it was and is gone.

        Raises RejectedError for a file of a site itself, or one that a job needs.
        """
        name, sites = await self.event_loop.ask(
            lambda batch: self._check_removal(batch, request, caller)
        )
        away = [site for site in sites if not self.scheduler.sites[site].is_connected]
        results = await asyncio.gather(
            *(self._remove_at(site, name) for site in sites if site not in away)
        )
        gone = tuple(site for site, is_gone in results if is_gone)
        left = tuple(site for site in sites if site not in gone)
        return grid.RemovedFile(file=name, removed=gone, left=left)

    async def _remove_at(self, site: SiteName, name: FileName) -> tuple[SiteName, bool]:
        with self.additions.removing(site, name) as gone:
            try:
                async with asyncio.timeout(REMOVED_S):
                    await gone.wait()
            except TimeoutError:
                return site, False
        return site, True

    def _check_removal(
        self, batch: BatchContext, request: pb.RemoveFileRequest, caller: Caller
    ) -> tuple[FileName, tuple[SiteName, ...]]:
        scheduler = batch.scheduler
        own = FileName(own_prefix(caller.name) + request.name)
        name = own if own in scheduler.replicas else FileName(request.name)
        known = scheduler.replicas.get(name)
        is_mine = name.startswith(own_prefix(caller.name)) or caller.sees("")
        if known is None or not (is_mine or may_read(caller.name, name)):
            raise RejectedError(
                f"no file {shown(request.name)}: `koala files` lists those there are"
            )
        if not name.startswith("~"):
            raise RejectedError(
                f"{shown(name)} is a file of {' and '.join(known.sites)}: the site's administrator"
                " removes it"
            )
        if not is_mine:
            owner = name[1:].partition("/")[0]
            raise RejectedError(f"{shown(name)} is a file of {owner}, who can remove it")
        readers = [
            job.id
            for job in scheduler.jobs.values()
            if not job.has_ended and name in {file.name for file in job.spec.all_inputs}
        ]
        if readers:
            more = ", ..." if len(readers) > NAMES_MAX else ""
            raise RejectedError(
                f"{shown(name)} is an input file of {', '.join(readers[:NAMES_MAX])}{more} (remove"
                " it when they have ended)"
            )
        if request.site and request.site not in known.sites:
            raise RejectedError(
                f"{shown(name)} is not at {request.site!r}, but at {', '.join(known.sites)}"
            )
        return name, (SiteName(request.site),) if request.site else known.sites


def _archives(batch: BatchContext) -> frozenset[str]:
    """Return the keys of the archives that unfinished jobs need."""
    needed = {
        (component.archive, job.spec.owner)
        for job in batch.scheduler.jobs.values()
        for component in job.spec.components
        if component.archive and not job.has_ended
    }
    contents = [content_of(archive, owner) for archive, owner in needed]
    return frozenset(content.key for content in contents if content is not None)


def _chosen_site(sites: Mapping[SiteName, Site], user: UserName, wanted: str) -> SiteName:
    """Return the wanted site, or the largest connected one. Raises UnknownSiteError,
    RejectedError."""
    seen = [site for site in sites.values() if site.facts.admits(user)]
    if wanted and SiteName(wanted) not in {site.name for site in seen}:
        known = ", ".join(site.name for site in seen) or "none"
        raise UnknownSiteError(f"no site {wanted[:80]!r} (expected one of {known})")
    usable = [site for site in seen if site.is_connected and wanted in ("", site.name)]
    if not usable:
        raise RejectedError(f"{wanted or 'every site'} is disconnected: try again when it is back")
    return max(usable, key=lambda site: site.facts.processors).name


def _require_name(user: str) -> None:
    if not user:
        raise RejectedError("files belong to a user, and this call names none")
