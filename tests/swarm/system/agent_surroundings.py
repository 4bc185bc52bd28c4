"""Surroundings of a simulated agent: connections, files, folders, batch system and link."""

from __future__ import annotations

import asyncio
import json
import math
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from koala.common.files.orders import Report
from koala.common.protocol import messages
from koala.common.protocol.codec import watermark_of
from koala.common.protocol.messages import FileFound, Resources
from koala.common.protocol.names import ClaimId
from koala.common.protocol.queue_limits import NO_LIMITS, Times
from koala.common.runtime.disk_space import DiskSpace
from koala.common.wire.v1 import link_pb2 as pb
from koala.core.model.values import Instant, Seconds
from koala.errors import LocalManagerError, SpecError
from koala_agent.claim_folders import ClaimFolders
from koala_agent.claims.folder import StarterRecord
from koala_agent.link import codec, session_events
from koala_agent.link.session_driver import Post
from koala_agent.lrm.local_manager import Idle, Listed, Placeholder
from koala_agent.placeholders import submission as placeholders
from koala_agent.placeholders.submission import Preparation
from tests.swarm.system.batch import Answer, Job
from tests.swarm.system.copies import RIGHT, Copies
from tests.swarm.system.network import End, Pipe

if TYPE_CHECKING:
    from tests.swarm.system.agents import Agent

PORT = 1


class Transport(asyncio.Transport):
    """One accepted connection of a starter."""

    def __init__(self, agent: Agent, end: End[bytes], lost: Callable[[], None]) -> None:
        super().__init__()
        self._agent = agent
        self._end = end
        self._lost = lost
        self._is_closing = False
        self._starter: tuple[ClaimId, str] | None = None  # from its hello

    def receive(self, take: Callable[[bytes], None]) -> Callable[[bytes], None]:
        """Wrap the receiver of a starter's data: its hello says who it is."""

        def receive(data: bytes) -> None:
            for line in data.splitlines():
                message = json.loads(line)
                if message["kind"] == "hello":
                    self._starter = ClaimId(message["claim"]), message["nonce"]
            take(data)

        return receive

    def write(self, data: bytes | bytearray | memoryview[Any]) -> None:
        if json.loads(bytes(data))["kind"] == "adopted":
            assert self._starter is not None
            self._agent.require_bound(*self._starter)
        self._end.send(bytes(data))

    def close(self) -> None:
        if not self._is_closing:
            self._is_closing = True
            self._end.close()
            asyncio.get_running_loop().call_soon(self._lost)

    def abort(self) -> None:
        if not self._is_closing:
            self._is_closing = True
            self._end.reset()
            asyncio.get_running_loop().call_soon(self._lost)

    def is_closing(self) -> bool:
        return self._is_closing

    def get_extra_info(self, name: str, default: Any = None) -> Any:
        return ("127.0.0.1", PORT) if name == "peername" else default

    def get_write_buffer_size(self) -> int:
        return 0


async def pass_time(duration_s: Seconds) -> None:
    """Return when this much simulated time has passed."""
    loop = asyncio.get_running_loop()
    passed = loop.create_future()
    timer = loop.call_later(duration_s, passed.set_result, None)
    try:
        await passed
    finally:
        timer.cancel()


class LinkEvents(asyncio.Queue[session_events.Event]):
    """Inbox of the link; all that is told passes the oracle."""

    def __init__(self, agent: Agent) -> None:
        super().__init__()
        self._agent = agent

    def put_nowait(self, item: session_events.Event) -> None:
        """See asyncio.Queue."""
        if isinstance(item, session_events.Reported) and isinstance(item.report, messages.Report):
            self._agent.require_may_tell(item.report)
        super().put_nowait(item)


class RoomyDisk(DiskSpace):
    """Disk that is never full."""

    def __init__(self) -> None:
        super().__init__(Path("/"), low_bytes=0, ballast_bytes=0)

    async def run(self, *, changed: Callable[[], None] = lambda: None) -> None:
        """See DiskSpace."""


class SimulatedFiles(Copies):
    """File work of a simulated agent (`koala_agent.agent.Files`)."""

    def __init__(self, agent: Agent, tell: Callable[[Report], None]) -> None:
        super().__init__(agent, agent.site, agent.spool, agent.sources, tell)
        self._files = agent.files

    async def run(self) -> None:
        """See Files."""

    async def ready(self) -> None:
        """See Files."""

    async def listed(self) -> None:
        """See Files."""

    def inventory(self) -> tuple[Report, ...]:
        """See Files."""
        return (*super().inventory(), *(file_found(*file) for file in self._files.items()))

    def retain(self, transfers: frozenset[str]) -> None:
        """See Files. Finished copies may stay for a day."""
        finished = {name for name, part in self.spool.items() if part.took_s is not None}
        super().retain(transfers | finished)


class SimulatedFolders(ClaimFolders):
    """Folders of claims without files: the specification goes to the batch job."""

    def __init__(self, agent: Agent) -> None:
        super().__init__(agent.launch)
        self._agent = agent

    def install(self) -> None:
        """See ClaimFolders."""

    def prepare(self, orders: Sequence[Preparation]) -> list[Placeholder | Exception]:
        """See ClaimFolders."""
        return [self._placeholder(order) for order in orders]

    def _placeholder(self, order: Preparation) -> Placeholder:
        claim, leases = order.claim, order.leases
        hold = claim.hold
        spec = placeholders.specification(
            claim,
            self._agent.launch,
            program=hold.program,
            port=order.port,
            leases=leases,
        )
        wall_time_s = hold.program.wall_time_s or math.inf
        return Placeholder(
            claim=claim.id,
            processors=hold.processors,
            time_limit_s=hold.hold_s + wall_time_s + leases.kill_s,
            argv=(json.dumps(spec),),
            may_kill=hold.may_kill,
            is_gated=hold.is_gated,
            begins_at=hold.begins_at,
            directory=self.folder(claim.id),
        )

    def record(self, claim: ClaimId) -> StarterRecord | None:
        """See ClaimFolders."""
        folder = self._agent.folders.get(claim)
        return None if folder is None else folder.record()


class SimulatedManager:
    """Batch system as the agent's local manager (`koala_agent.lrm.local_manager`)."""

    starts_after_stop = False
    honours: tuple[str, ...] = ()

    def __init__(self, agent: Agent, *, restored: tuple[ClaimId, ...]) -> None:
        self.gate = agent.gate
        self.books = agent.books
        self._agent = agent
        self._restored = restored
        self._closed = asyncio.Event()

    def times(self, resources: Resources) -> Times:
        """See LocalManager."""
        return NO_LIMITS

    def number(self, _claim: str) -> str:
        """See LocalManager."""
        return ""

    def note_start(self, claim: str) -> None:
        """See LocalManager."""

    def note_left(self, claim: str, *, is_gone: bool) -> None:
        """See LocalManager."""

    async def run(self) -> None:
        """See LocalManager."""
        await self._closed.wait()

    async def opened(self) -> None:
        """See LocalManager."""

    async def close(self, *, kill: bool = False) -> None:
        """See LocalManager."""
        assert not kill
        self._closed.set()

    async def submit(self, placeholder: Placeholder) -> None:
        """See LocalManager."""
        agent, claim = self._agent, placeholder.claim
        spec = json.loads(placeholder.argv[0])
        job = Job(
            claim=claim,
            processors=placeholder.processors,
            time_limit_s=placeholder.time_limit_s,
            begins_at=self._true(placeholder.begins_at),
            is_gated=placeholder.is_gated,
            begin=lambda job: agent.begin(claim, spec, job),
        )
        await self._command(
            lambda answer: agent.batch.submit(job, answer, may_kill=placeholder.may_kill)
        )

    def _true(self, at: Instant) -> Instant:
        """Return the true instant at which the site's clock shows this; 0 for 0."""
        return at and max(1e-9, at - self._agent.machine.wall_error_s)

    async def set_gate(self, claim: str, *, is_gated: bool) -> None:
        """See LocalManager."""
        await self._command(
            lambda answer: self._agent.batch.set_gate(claim, answer, is_gated=is_gated)
        )

    async def withdraw(self, claim: str) -> None:
        """See LocalManager."""
        await self._command(lambda answer: self._agent.batch.withdraw(claim, answer))

    async def listing(self) -> tuple[Listed, ...]:
        """See LocalManager."""
        return await self._listing(self._restored)

    async def find(self, claim: str) -> Listed | None:
        """See LocalManager."""
        listed = await self._listing((ClaimId(claim),))
        return next((entry for entry in listed if entry.claim == claim), None)

    async def _listing(self, claims: tuple[ClaimId, ...]) -> tuple[Listed, ...]:
        """List all, to find out what is left of these claims."""
        agent = self._agent
        answered = asyncio.get_running_loop().create_future()

        def answer(found: tuple[Listed, ...] | LocalManagerError) -> None:
            agent.looked_at.update(dict.fromkeys(claims, agent.engine.now))
            tell(found)

        tell = agent.of_this_life(lambda found: _resolve(answered, found))
        agent.batch.listing(answer)
        found: tuple[Listed, ...] = await answered
        return found

    async def idle(self) -> Idle:
        """See LocalManager."""
        return await self._agent.idle()

    async def _command(self, order: Callable[[Answer], None]) -> None:
        """Give an order to the batch system and wait for its answer."""
        answered = asyncio.get_running_loop().create_future()
        self._agent.point()
        order(self._agent.of_this_life(lambda error: _resolve(answered, error)))
        self._agent.point()
        await answered


def _resolve(answered: asyncio.Future[Any], result: object) -> None:
    if answered.done():
        return
    if isinstance(result, LocalManagerError):
        answered.set_exception(result)
    else:
        answered.set_result(result)


class SimulatedStream:
    """One connection to the daemon (`koala_agent.link.session_driver.Stream`)."""

    def __init__(self, agent: Agent, connection: int, post: Post) -> None:
        self._agent = agent
        self._connection = connection
        self._post = post
        self._end: End[Any] | None = None
        self._over: asyncio.Future[str] = asyncio.get_running_loop().create_future()
        self._is_orderly = False

    def send(self, batch: Sequence[object]) -> bool:
        """See Stream."""
        for message in batch:
            self._agent.point()
            if self._end is not None and not self._over.done():
                self._end.send(codec.encode(message, lambda: self._agent.description))
        return True

    def hang_up(self, *, is_orderly: bool) -> None:
        """See Stream."""
        self._is_orderly = is_orderly
        self._end_with("hung up")

    async def run(self, startable: Callable[[], int]) -> str:
        """See Stream."""
        agent = self._agent
        reached = agent.of_this_life(lambda pipe: self._reached(pipe, startable))
        life = agent.life

        def answer(pipe: Pipe[Any] | None) -> None:
            if life == agent.life:
                reached(pipe)
            elif pipe is not None:
                pipe.ends[0].reset()

        agent.dial(agent, answer)
        reason = await self._over
        if self._end is not None and self._is_orderly:
            self._end.close()
        elif self._end is not None:
            self._end.reset()
        return reason

    def _reached(self, pipe: Pipe[Any] | None, startable: Callable[[], int]) -> None:
        if pipe is None:
            self._end_with("nobody answers")
            return
        end = pipe.ends[0]
        if self._over.done():
            end.reset()
            return
        agent, connection = self._agent, self._connection
        self._end = end
        agent.keep(end)
        end.take = agent.of_this_life(self._receive)
        end.lost = agent.of_this_life(lambda: self._end_with("the connection is gone"))
        name = f"{agent.site}-{agent.life}-{connection}"
        self._post(session_events.Dialled(connection=connection, session=name, idle=startable()))

    def _end_with(self, reason: str) -> None:
        if not self._over.done():
            self._over.set_result(reason)

    def _receive(self, message: pb.ToAgent) -> None:
        try:
            decoded = codec.decode(message)
        except SpecError as error:
            site = self._agent.site
            raise AssertionError(f"{site} does not understand the daemon: {error}") from error
        if decoded is not None:
            mark = watermark_of(message)
            received = session_events.Received(
                connection=self._connection, message=decoded, mark=mark
            )
            self._post(received)


def file_found(file: str, size_bytes: int) -> FileFound:
    """Return the report of a whole file."""
    return FileFound(file=file, size_bytes=size_bytes, checksum=RIGHT)
