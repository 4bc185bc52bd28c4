"""A small daemon for tests of agents: the real service, told by the test what to say.

    async with fake_daemon() as daemon:
        session = await daemon.session()            # the next agent that registers
        await session.inventory()                   # until InventoryEnd
        session.welcome()
        session.want(hold("j1/1/0/1", ...))         # all that is wanted, and WantedEnd
        report = await session.claim("j1/1/0/1", GRANTED)

It answers pings by itself (`answers_pings`), beats when asked to, and does nothing else. Waiting is
for messages, up to `PATIENCE_S`; what was not waited for is kept. `stop` and `start` on the same
port are a daemon that restarts.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from typing import Any, TypeAlias, TypeVar

import grpc

from koala.common.protocol.versions import PROTOCOL
from koala.common.wire.v1 import link_pb2
from koala.common.wire.v1.link_pb2_grpc import AgentLinkServicer, add_AgentLinkServicer_to_server
from tests.harness.ports import free_port

PATIENCE_S = 60.0
LATE_S = 25.0
"""How late a busy machine may let a starter pass; leases that are not a test's own outlast it."""

ASKED = link_pb2.CLAIM_STATE_ASKED
GRANTED = link_pb2.CLAIM_STATE_GRANTED
ARMED = link_pb2.CLAIM_STATE_ARMED
PASSED = link_pb2.CLAIM_STATE_PASSED
GONE = link_pb2.CLAIM_STATE_GONE

T = TypeVar("T")
Context: TypeAlias = "grpc.aio.ServicerContext[link_pb2.FromAgent, link_pb2.ToAgent]"


async def patiently(awaited: Awaitable[T]) -> T:
    """Waits, but not for ever."""
    async with asyncio.timeout(PATIENCE_S):
        return await awaited


class FakeSession:
    """One stream from an agent, its Register read."""

    def __init__(self, daemon: FakeDaemon, register: link_pb2.Register) -> None:
        self.register = register
        self.goodbye: str | None = None
        self.is_over = asyncio.Event()
        self.is_reading = True  # may be set to False: then nothing more is read
        self.beats: list[link_pb2.Beat] = []
        self._daemon = daemon
        self._waiting: dict[str, list[Any]] = {}
        self._came = asyncio.Condition()
        self._outbox: asyncio.Queue[link_pb2.ToAgent | None] = asyncio.Queue()

    # What the test says --------------------------------------------------------------------------

    def say(self, **kind: Any) -> None:
        """One message: `say(stop=Stop(claim=...))`."""
        self._outbox.put_nowait(link_pb2.ToAgent(**kind))

    def welcome(
        self, *, hold_lease_s: float = 60.0, run_lease_s: float = 600.0, kill_s: float = 1.0
    ) -> None:
        """Takes the session."""
        self.say(
            welcome=link_pb2.Welcome(
                epoch=self._daemon.epoch,
                protocol=PROTOCOL,
                hold_lease_s=hold_lease_s,
                run_lease_s=run_lease_s,
                kill_s=kill_s,
                now=self._daemon.now(),
                relay=self._daemon.relay,
            )
        )

    def want(self, *wanted: link_pb2.ToAgent) -> None:
        """All that is wanted, and WantedEnd."""
        self.want_more(*wanted)
        self.say(wanted_end=link_pb2.WantedEnd())

    def want_more(self, *wanted: link_pb2.ToAgent) -> None:
        """Differences in a live session."""
        for message in wanted:
            self._outbox.put_nowait(message)

    @property
    def epoch(self) -> int:
        """The daemon's."""
        return self._daemon.epoch

    def arm(self, *claims: str) -> float:
        """Arms these claims, members of one attempt here; answers T."""
        release_at = self._daemon.now() + 0.3
        peers = [
            link_pb2.Peer(
                component=int(claim.split("/")[2]),
                label=f"c{claim.split('/')[2]}",
                site=self.register.site,
                processors=1,
                processes=1,
                address="127.0.0.1",
                port=20_000,
                claim=claim,
            )
            for claim in claims
        ]
        for claim in claims:
            number = link_pb2.ArmNumber(epoch=self._daemon.epoch, counter=1)
            self.say(
                arm=link_pb2.Arm(
                    claim=claim, number=number, release_at=release_at, late_s=LATE_S, peers=peers
                )
            )
        return release_at

    def release(self, *claims: str, release_at: float, epoch: int | None = None) -> None:
        """Releases these claims as they were armed by `arm`."""
        number = link_pb2.ArmNumber(epoch=epoch or self._daemon.epoch, counter=1)
        for claim in claims:
            self.say(release=link_pb2.Release(claim=claim, number=number, release_at=release_at))

    def end(self) -> None:
        """Ends the stream from the daemon's side."""
        self._outbox.put_nowait(None)

    # What the test waits for ---------------------------------------------------------------------

    async def next(
        self,
        kind: str,
        is_wanted: Callable[[Any], bool] = lambda _: True,
        *,
        is_about: Callable[[Any], bool] = lambda _: True,
    ) -> Any:
        """The next message of a kind that is wanted. Earlier ones of that kind that are about the
        same are dropped; others stay for who waits for them."""

        def found() -> Any:
            kept: list[Any] = []
            waiting = self._waiting.get(kind, [])
            while waiting:
                message = waiting.pop(0)
                if is_about(message) and is_wanted(message):
                    self._waiting[kind] = kept + waiting
                    return message
                if not is_about(message):
                    kept.append(message)
            self._waiting[kind] = kept
            return None

        async with self._came:
            try:
                return await patiently(self._came.wait_for(found))
            except TimeoutError:
                seen = "\n".join(self._daemon.story)
                message = f"no {kind} that was wanted within {PATIENCE_S} s; the story:\n{seen}"
                raise AssertionError(message) from None

    async def claim(self, claim: str, state: int) -> link_pb2.ClaimReport:
        """The next report of this claim in this state."""
        report = await self.next(
            "claim", lambda report: report.state == state, is_about=lambda r: r.claim == claim
        )
        assert isinstance(report, link_pb2.ClaimReport)
        return report

    async def inventory(self) -> dict[str, link_pb2.ClaimReport]:
        """Waits for InventoryEnd; answers the reports on claims before it."""
        await self.next("inventory_end")
        return {report.claim: report for report in self._waiting.pop("claim", [])}

    def waiting(self, kind: str) -> list[Any]:
        """Messages of a kind that nobody has waited for yet."""
        return list(self._waiting.get(kind, []))

    # The stream ----------------------------------------------------------------------------------

    async def take(self, message: link_pb2.FromAgent) -> None:
        """A message of the agent."""
        kind = message.WhichOneof("kind") or ""
        body = getattr(message, kind)
        if kind not in ("ping", "beat"):
            self._daemon.note(self.register.site, kind, body)
        if kind == "ping" and self._daemon.answers_pings:
            now = self._daemon.now()
            self.say(
                pong=link_pb2.Pong(
                    claim=body.claim, nonce=body.nonce, sent_at=body.sent_at, now=now
                )
            )
        if kind == "goodbye":
            self.goodbye = body.reason
        if kind == "beat":
            self.beats.append(body)
        async with self._came:
            self._waiting.setdefault(kind, []).append(body)
            self._came.notify_all()

    async def serve(self, context: Context) -> None:
        """Until either side ends the stream."""
        try:
            async with asyncio.TaskGroup() as group:
                writing = group.create_task(self._write(context))
                reading = group.create_task(self._read(context))
                await asyncio.wait({writing, reading}, return_when=asyncio.FIRST_COMPLETED)
                writing.cancel()
                reading.cancel()
        finally:
            self.is_over.set()

    async def _read(self, context: Context) -> None:
        while isinstance(message := await context.read(), link_pb2.FromAgent):  # else EOF
            await self.take(message)
            if not self.is_reading:
                await asyncio.Event().wait()

    async def _write(self, context: Context) -> None:
        while (message := await self._outbox.get()) is not None:
            await context.write(message)


class FakeDaemon(AgentLinkServicer):
    """The service. `epoch` and `answers_pings` may be changed at any time."""

    def __init__(self, *, epoch: int = 1) -> None:
        self.epoch = epoch
        self.answers_pings = True
        self.relay = ""
        self.port = 0
        self.metadata: dict[str, str | bytes] = {}
        self.story: list[str] = []
        self._sessions: asyncio.Queue[FakeSession] = asyncio.Queue()
        self._server: grpc.aio.Server | None = None

    @property
    def target(self) -> str:
        """host:port, once started."""
        return f"127.0.0.1:{self.port}"

    def now(self) -> float:
        """The daemon's time: not the agent's clock, on purpose."""
        return time.monotonic() + 1_000_000.0

    async def start(self) -> None:
        """Listens, at the same port as before if there was one."""
        self._server = grpc.aio.server(options=[("grpc.so_reuseport", 0)])
        add_AgentLinkServicer_to_server(self, self._server)
        self.port = self._server.add_insecure_port(f"127.0.0.1:{self.port or free_port()}")
        await self._server.start()

    async def stop(self) -> None:
        """Is gone, sessions and all."""
        assert self._server is not None
        await self._server.stop(None)

    async def session(self) -> FakeSession:
        """The next agent that registers."""
        return await patiently(self._sessions.get())

    async def live(self, *wanted: link_pb2.ToAgent, **leases: float) -> FakeSession:
        """The next agent that registers, told that this is all that is wanted."""
        session = await self.session()
        await session.inventory()
        session.welcome(**leases)
        session.want(*wanted)
        return session

    def note(self, site: str, kind: str, body: object) -> None:
        """One line of the story, for a test that fails."""
        self.story.append(f"{self.now() % 1000:.3f} {site} {kind} {str(body).strip()!r}"[:300])

    async def Connect(self, _: Any, context: Context) -> None:  # type: ignore[override] # noqa: N802
        """One stream; the generated signature knows only iterators."""
        self.metadata = dict(context.invocation_metadata() or ())
        first = await context.read()
        assert first.WhichOneof("kind") == "register", first
        session = FakeSession(self, first.register)
        self.note(first.register.site, "register", first.register)
        self._sessions.put_nowait(session)
        await session.serve(context)


@asynccontextmanager
async def fake_daemon(*, epoch: int = 1) -> AsyncIterator[FakeDaemon]:
    """A daemon for the length of a block."""
    daemon = FakeDaemon(epoch=epoch)
    await daemon.start()
    try:
        yield daemon
    finally:
        await daemon.stop()


def hold(
    claim: str,
    *arguments: str,
    ask_number: int = 1,
    processors: int = 1,
    hold_s: float = 60.0,
    is_granted: bool = False,
    no_barrier: bool = False,
    owner: str = "anna",
    executable: str = "/bin/sh",
    **program: Any,
) -> link_pb2.ToAgent:
    """A Hold for one process of a shell: `hold("j1/1/0/1", "-c", "echo hello")`."""
    return link_pb2.ToAgent(
        hold=link_pb2.Hold(
            claim=claim,
            ask_number=ask_number,
            is_granted=is_granted,
            owner=owner,
            processors=processors,
            port=20_000,
            hold_s=hold_s,
            no_barrier=no_barrier,
            program=link_pb2.Program(
                label="c0",
                executable=executable,
                arguments=arguments,
                processes=program.pop("processes", 1),
                job_type=program.pop("job_type", "multiple"),
                **program,
            ),
        )
    )
