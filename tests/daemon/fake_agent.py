"""A minimal agent for tests of the daemon: grants, arms, passes and ends claims as it is told."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import suppress
from dataclasses import dataclass, field

import grpc

from koala.common.identity.tls import IdentityFile
from koala.common.protocol.versions import PROTOCOL
from koala.common.wire.packing import PACKS, unpacked
from koala.common.wire.v1 import link_pb2 as pb
from koala.common.wire.v1.link_pb2_grpc import AgentLinkStub
from koala_agent.link.endpoints import dial

OPTIONS = (("grpc.use_local_subchannel_pool", 1), ("grpc.max_reconnect_backoff_ms", 200))


@dataclass
class FakeAgent:
    """`address` may change between connections; `claims` are its memory, as on a disk. With an
    `identity` it speaks TLS."""

    address: str
    site: str = "delft"
    processors: int = 8
    protocol: int = PROTOCOL
    epoch_seen: int = 0
    mark: pb.Mark | None = None
    session: str = "s1"
    ends_at_once: bool = True
    statuses: tuple[int, ...] = (0,)
    claims: dict[str, pb.ClaimReport] = field(default_factory=dict)
    files: dict[str, int] = field(default_factory=dict)
    logs: dict[str, bytes] = field(default_factory=dict)
    heard: list[pb.ToAgent] = field(default_factory=list)
    changed: asyncio.Event = field(default_factory=asyncio.Event)
    acknowledged: list[str] = field(default_factory=list)
    ask_number: int = 0
    outbox: "asyncio.Queue[pb.FromAgent | None]" = field(default_factory=asyncio.Queue)
    identity: IdentityFile | None = None
    unpacks: bool = False
    messages: int = 0  # of the stream; one may be a pack

    async def stay(self) -> None:
        """Connect, and connect again, until cancelled."""
        while True:
            with suppress(grpc.aio.AioRpcError):
                await self.connect()
            await asyncio.sleep(0)

    async def connect(self) -> None:
        """One session until its end."""
        self.outbox = asyncio.Queue()
        async with await dial(self.address, self.identity, options=OPTIONS) as channel:
            stub = AgentLinkStub(channel)
            metadata = PACKS if self.unpacks else ()
            call = stub.Connect(self._requests(), metadata=metadata, wait_for_ready=True)
            try:
                async for message in call:
                    self.messages += 1
                    for part in unpacked(message):
                        self.hear(part)
            finally:
                call.cancel()

    def hear(self, message: pb.ToAgent) -> None:
        """The daemon said this."""
        self.heard.append(message)
        if message.HasField("mark"):
            self.mark = message.mark
        self._take(message)
        self.changed.set()

    async def until(self, kind: str, count: int = 1) -> list[pb.ToAgent]:
        """Wait until so many messages of a kind have been heard."""
        async with asyncio.timeout(90):
            while len(found := self.heard_of(kind)) < count:
                self.changed.clear()
                await self.changed.wait()
        return found

    def heard_of(self, kind: str) -> list[pb.ToAgent]:
        return [message for message in self.heard if message.WhichOneof("kind") == kind]

    def tell(self, **kind: object) -> None:
        """Say this now."""
        self.outbox.put_nowait(pb.FromAgent(**kind))

    def end(self, claim: str, kind: str = "exited", *, statuses: tuple[int, ...] = (0,)) -> None:
        """The claim is gone, and the daemon hears it."""
        report = self.claims[claim]
        report.state = pb.CLAIM_STATE_GONE
        report.end.CopyFrom(pb.End(kind=kind, statuses=statuses))
        self.tell(claim=report)

    async def _requests(self) -> AsyncIterator[pb.FromAgent]:
        yield pb.FromAgent(
            register=pb.Register(
                protocol=self.protocol,
                epoch_seen=self.epoch_seen,
                mark=self.mark,
                version="test",
                site=self.site,
                session=self.session,
                facts=pb.Facts(processors=self.processors, grace_s=60.0, address="127.0.0.1"),
                idle=self.processors,
            )
        )
        for report in self.claims.values():
            yield pb.FromAgent(claim=report)
        for file, size in self.files.items():
            yield pb.FromAgent(file=pb.FileReport(file=file, size_bytes=size))
        yield pb.FromAgent(inventory_end=pb.InventoryEnd())
        while (message := await self.outbox.get()) is not None:
            yield message

    def _take(self, message: pb.ToAgent) -> None:
        match message.WhichOneof("kind"):
            case "beat":
                self.tell(beat=message.beat)
            case "hold":
                self._hold(message.hold)
            case "arm":
                report = self.claims[message.arm.claim]
                report.state = pb.CLAIM_STATE_ARMED
                report.armed.CopyFrom(message.arm.number)
                self.tell(claim=report)
            case "release":
                self._release(message.release)
            case "stop":
                report = self.claims.setdefault(
                    message.stop.claim, pb.ClaimReport(claim=message.stop.claim)
                )
                if report.state != pb.CLAIM_STATE_GONE:
                    report.state = pb.CLAIM_STATE_GONE
                    report.end.CopyFrom(pb.End(kind="stopped"))
                self.tell(claim=report)
            case "acknowledge":
                self.acknowledged.append(message.acknowledge.claim)
                self.claims.pop(message.acknowledge.claim, None)
            case "log_request":
                wanted = message.log_request
                text = self.logs.get(f"{wanted.stream}.{wanted.process}")
                data = (text or b"")[wanted.offset : wanted.offset + wanted.size_max]
                chunk = pb.LogChunk(request=wanted.request, data=data, offset=wanted.offset)
                chunk.is_over = text is None
                self.tell(log=chunk)
            case _:
                pass

    def _hold(self, hold: pb.Hold) -> None:
        self.ask_number = max(self.ask_number, hold.ask_number)
        report = self.claims.get(hold.claim)
        if report is None and hold.is_granted:
            report = pb.ClaimReport(
                claim=hold.claim, state=pb.CLAIM_STATE_GONE, end=pb.End(kind="unknown")
            )
        elif report is None:
            report = pb.ClaimReport(
                claim=hold.claim,
                state=pb.CLAIM_STATE_GRANTED,
                nonce=f"n-{hold.claim}",
                batch_job=f"{1000 + hold.ask_number}",
            )
        self.claims[hold.claim] = report
        self.tell(claim=report)

    def _release(self, release: pb.Release) -> None:
        report = self.claims[release.claim]
        if report.state == pb.CLAIM_STATE_ARMED:
            report.state = pb.CLAIM_STATE_PASSED
            report.passed_at = release.release_at
            self.tell(claim=report)
            if self.ends_at_once:
                self.end(release.claim, statuses=self.statuses)
