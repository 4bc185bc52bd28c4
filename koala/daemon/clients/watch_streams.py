"""Streams of notices to clients that watch a job, a site or the whole grid."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable, Sequence
from contextlib import aclosing
from dataclasses import dataclass
from functools import lru_cache
from typing import Any, TypeAlias

import grpc

from koala.common.wire.v1 import koala_pb2 as pb
from koala.core.model.job import TERMINAL_PHASES
from koala.core.model.values import JobId, SiteName, UserName
from koala.core.scheduler import Scheduler
from koala.daemon.auth.access_rules import Caller
from koala.daemon.loop.event_feed import CutError, EventFeed
from koala.daemon.loop.event_loop import EventLoop
from koala.daemon.storage.journal import Journal
from koala.daemon.storage.records import Notice

WRITE_S_MAX = 60.0  # for one notice: a watcher that does not read for so long is cut

Context: TypeAlias = "grpc.aio.ServicerContext[Any, Any]"


@dataclass(frozen=True, slots=True, kw_only=True)
class WatchStreams:
    """Sender of notices: each watcher gets those that it asked for and may see."""

    event_feed: EventFeed
    event_loop: EventLoop
    journal: Journal
    scheduler: Scheduler

    async def send(
        self,
        request: pb.WatchRequest,
        context: Context,
        caller: Caller,
        after: int,
        until: int | None,
    ) -> None:
        """Send matching notices; end after notice `until`, or after the one with the job's end."""
        # Tells the client that it misses no notice from here on.
        await context.send_initial_metadata((("koala-after", str(after)),))
        if until is not None and until <= after:
            return
        try:
            async with aclosing(self.event_feed.since(after)) as chunks:
                async for chunk in chunks:
                    chosen = [notice for notice in chunk if _is_wanted(notice, request)]
                    visible = await self._visible(caller, chosen)
                    for message in encoded_messages(visible, in_lots=request.in_lots):
                        async with asyncio.timeout(WRITE_S_MAX):
                            await context.write(message)
                    if until is None and any(_is_end(notice, request.job) for notice in chunk):
                        return
                    if until is not None and until <= chunk[-1].number:
                        return
                    if request.in_lots:
                        await asyncio.sleep(self.event_feed.pause_s)
        except CutError as cut:
            await context.abort(grpc.StatusCode.ABORTED, str(cut))
        except TimeoutError:
            reason = f"nothing was taken for {WRITE_S_MAX:g} s; resume after the last one seen"
            await context.abort(grpc.StatusCode.ABORTED, reason)

    async def _visible(self, caller: Caller, notices: Sequence[Notice]) -> Sequence[Notice]:
        """Filter notices: a caller sees those of visible jobs, and of sites that admit it."""
        if caller.sees(""):
            return notices
        owners = await self._owners({notice.job for notice in notices if notice.job})

        def sees(notice: Notice) -> bool:
            if notice.job:
                return notice.job in owners and caller.sees(owners[notice.job])
            site = self.scheduler.sites.get(SiteName(notice.site))
            return site is None or site.facts.admits(UserName(caller.name))

        return [notice for notice in notices if sees(notice)]

    async def _owners(self, jobs: Iterable[str]) -> dict[str, str]:
        """Look up the owners of jobs, in the state and the archive."""
        owners: dict[str, str] = {}
        past = []
        for name in jobs:
            job = self.event_loop.job(JobId(name))
            if job is None:
                past.append(name)
            else:
                owners[name] = job.spec.owner
        return owners | await self.journal.owners(past) if past else owners


def encoded_messages(notices: Sequence[Notice], *, in_lots: bool) -> list[bytes]:
    """Encode a message for each notice, or one for all: the first, with the others in it.

    Joined encodings decode as one message with the fields of all (Protocol Buffers).
    """
    encoded = [_encoded(notice) for notice in notices]
    if not in_lots:
        return [alone for alone, _ in encoded]
    return [b"".join([encoded[0][0], *(within for _, within in encoded[1:])])] if encoded else []


@lru_cache(maxsize=1_000)  # all watchers read the newest notices
def _encoded(notice: Notice) -> tuple[bytes, bytes]:
    """Encode a notice twice: as a message of its own, and as an element of `more`."""
    message = pb.Notice(
        number=notice.number,
        at=notice.at,
        job=notice.job,
        site=notice.site,
        phase=notice.phase,
        text=notice.text,
    )
    return message.SerializeToString(), pb.Notice(more=[message]).SerializeToString()


def _is_wanted(notice: Notice, request: pb.WatchRequest) -> bool:
    return request.job in ("", notice.job) and request.site in ("", notice.site)


def _is_end(notice: Notice, job: str) -> bool:
    """Return True for a job's last notice: there are none after its end."""
    return bool(job) and notice.job == job and notice.phase in TERMINAL_PHASES
