"""A crowd in a process of its own: many agents, clients or watchers of one daemon.

    python -m tests.bench.crowd     settings as one line of JSON on standard input

It says `ready` when all of them are connected, and after each line that it is sent what it has
counted since the last one, as a line of JSON. It ends when its standard input does. `Crowd` is the
other side of that. Agents and clients are cheap, but speak what real ones speak, over TLS.
"""

from __future__ import annotations

import asyncio
import json
import sys
from collections import Counter
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from time import perf_counter
from typing import Any

import grpc

from koala.client import Client, Submission, Submitted
from koala.credentials import Credentials
from koala.daemon.clock import wall_s
from koala.errors import KoalaError
from koala.wire.tls import IdentityFile
from koala.wire.v1 import link_pb2
from koala_agent.joining import identity_path
from tests.bench.figures import percentile
from tests.daemon.fake_agent import FakeAgent

LIMIT_BYTES = 64 * 1024 * 1024  # a line of figures
PLACES = 32
"""Agents that connect at a time: a handshake is work for both sides."""


def shape(values: Sequence[float]) -> dict[str, float]:
    """Of what was measured, in the unit of the values."""
    if not values:
        return {"count": 0}
    return {
        "count": len(values),
        "p50": percentile(values, 0.5),
        "p99": percentile(values, 0.99),
        "max": max(values),
    }


# --- agents ---------------------------------------------------------------------------------------


@dataclass
class CountedAgent(FakeAgent):
    """Forgets what it heard, and notes how late the daemon's beats are."""

    beat_s: float = 0.5
    late_s: list[float] = field(default_factory=list)
    sessions: int = 0
    beat_at: float | None = None

    def hear(self, message: link_pb2.ToAgent) -> None:
        super().hear(message)
        self.heard.clear()
        kind = message.WhichOneof("kind")
        if kind == "welcome":
            self.sessions += 1
            self.beat_at = None
        elif kind == "beat":
            now = perf_counter()
            if self.beat_at is not None:
                self.late_s.append(max(0.0, now - self.beat_at - self.beat_s))
            self.beat_at = now


async def agents(settings: dict[str, Any], lines: asyncio.StreamReader) -> None:
    """Sites that grant, start and end at once whatever they are asked; `flood` of them talk without
    end once they are told to."""
    places = asyncio.Semaphore(PLACES)
    crowd = [
        CountedAgent(
            settings["address"],
            site=site,
            processors=settings["processors"],
            beat_s=settings["beat_s"],
            identity=IdentityFile(identity_path(Path(settings["state"]) / site)),
        )
        for site in settings["sites"]
    ]

    async def stay(agent: CountedAgent) -> None:
        while True:
            async with places:
                connecting = group.create_task(quietly(agent))
                registered = group.create_task(until_registered(agent, agent.sessions))
                await asyncio.wait({connecting, registered}, return_when="FIRST_COMPLETED")
                registered.cancel()
            await connecting
            await asyncio.sleep(0.1)

    async with asyncio.TaskGroup() as group:
        staying = [group.create_task(stay(agent)) for agent in crowd]
        for agent in crowd:
            await until_registered(agent, 0)
        say("ready")
        async for line in lines:
            if line == b"flood\n":
                staying += [group.create_task(flood(agent)) for agent in crowd]
                continue
            late_s = [value for agent in crowd for value in agent.late_s]
            say({"late_s": shape(late_s), "sessions": sum(agent.sessions for agent in crowd)})
            for agent in crowd:
                agent.late_s.clear()
        for task in staying:
            task.cancel()


async def quietly(agent: CountedAgent) -> None:
    with suppress(grpc.aio.AioRpcError, KoalaError):
        await agent.connect()


async def until_registered(agent: CountedAgent, sessions: int) -> None:
    while agent.sessions == sessions:
        agent.changed.clear()
        await agent.changed.wait()


async def flood(agent: CountedAgent) -> None:
    """Other figures of the site all the time, as fast as they are taken."""
    number = 0
    while True:
        number += 1
        report = link_pb2.SiteReport(idle=number % 2, processors=agent.processors)
        agent.tell(site=report)
        if agent.outbox.qsize() > 1_000:
            await asyncio.sleep(0.01)


# --- clients --------------------------------------------------------------------------------------


def credentials(settings: dict[str, Any]) -> Credentials | None:
    """Of a user that was made for this; None: those of this account."""
    if "token" not in settings:
        return None
    return Credentials(token=settings["token"], authority=settings["authority"].encode())


async def clients(settings: dict[str, Any], lines: asyncio.StreamReader) -> None:
    """Each has a connection of its own, submits its share one after the other, and may watch."""
    shown = credentials(settings)
    latencies: list[float] = []
    outcomes: Counter[str] = Counter()
    seen: Counter[int] = Counter()

    async def submit(client: Client, number: int) -> None:
        lot = settings.get("lot", 1)
        for first in range(0, settings["jobs"], lot):
            key = f"{settings['name']}-{number}-"
            texts = [
                Submission(rsl=settings["rsl"], key=f"{key}{n}", no_wait=settings["no_wait"])
                for n in range(first, first + lot)
            ]
            begun_at = perf_counter()
            try:
                results = await client.submit_many(texts)
            except KoalaError as error:
                results = [error] * lot
            latencies.append(perf_counter() - begun_at)
            for result in results:
                kind = "accepted" if isinstance(result, Submitted) else type(result).__name__
                outcomes[kind] += 1

    async def watch(client: Client, number: int) -> None:
        async for _ in client.watch(after=-1):
            seen[number] += 1

    async with asyncio.TaskGroup() as group:
        crowd = [Client(settings["address"], credentials=shown) for _ in range(settings["clients"])]
        for client in crowd:
            await client.__aenter__()
            await client.hello()
        watching = [
            group.create_task(watch(client, number))
            for number, client in enumerate(crowd)
            if settings["watch"]
        ]
        say("ready")
        async for line in lines:
            if line != b"go\n":
                break
            begun_at = perf_counter()
            async with asyncio.TaskGroup() as submitting:
                for number, client in enumerate(crowd):
                    submitting.create_task(submit(client, number))
            say(
                {
                    "took_s": perf_counter() - begun_at,
                    "latency_s": shape(latencies),
                    "outcomes": dict(outcomes),
                    "seen": sum(seen.values()),
                }
            )
            latencies.clear()
        for task in watching:
            task.cancel()
        for client in crowd:
            await client.__aexit__(None, None, None)


# --- watchers -------------------------------------------------------------------------------------


async def watchers(settings: dict[str, Any], lines: asyncio.StreamReader) -> None:
    """Watch everything; `stops_after` some notices nothing more is taken until a line comes."""
    go_on, is_caught_up = asyncio.Event(), asyncio.Event()
    delays: list[float] = []
    numbers: dict[int, list[int]] = {}
    wanted = 0

    async def watch(client: Client, number: int) -> None:
        seen = numbers.setdefault(number, [])
        async for notice in client.watch(after=-1):
            delays.append(max(0.0, wall_s() - notice["at"]))
            seen.append(notice["number"])
            if len(seen) == settings["stops_after"]:
                await go_on.wait()
            if wanted and all(some and some[-1] >= wanted for some in numbers.values()):
                is_caught_up.set()

    async with asyncio.TaskGroup() as group:
        crowd = [Client(settings["address"]) for _ in range(settings["clients"])]
        for client in crowd:
            await client.__aenter__()
            await client.hello()
        watching = [group.create_task(watch(c, number)) for number, c in enumerate(crowd)]
        say("ready")
        async for line in lines:
            if line.startswith(b"until "):  # go on, and catch up with this notice
                wanted = int(line.split()[1])
                go_on.set()
                if not all(some and some[-1] >= wanted for some in numbers.values()):
                    await is_caught_up.wait()
            gaps = sum(
                after != before + 1
                for some in numbers.values()
                for before, after in zip(some, some[1:], strict=False)
            )
            say({"delay_s": shape(delays), "seen": sum(map(len, numbers.values())), "gaps": gaps})
            delays.clear()
        for task in watching:
            task.cancel()
        for client in crowd:
            await client.__aexit__(None, None, None)


# --- both sides -----------------------------------------------------------------------------------


class Crowd:
    """The process, from the other side."""

    def __init__(self, process: asyncio.subprocess.Process) -> None:
        self.process = process

    async def ask(self, word: str) -> dict[str, Any]:
        """Send a line; the answer."""
        self.send(word)
        return await self.answer()

    def send(self, word: str) -> None:
        """Send a line that has no answer, or whose answer is waited for later."""
        assert self.process.stdin is not None
        self.process.stdin.write(f"{word}\n".encode())

    async def answer(self) -> dict[str, Any]:
        """The next line that it says."""
        assert self.process.stdout is not None
        line = await self.process.stdout.readline()
        assert line, "a crowd has ended"
        found: dict[str, Any] = json.loads(line)
        return found


@asynccontextmanager
async def a_crowd(kind: str, **settings: Any) -> AsyncIterator[Crowd]:
    """One that is ready; it ends with the block."""
    process = await asyncio.create_subprocess_exec(
        *(sys.executable, "-m", "tests.bench.crowd"),
        stdin=asyncio.subprocess.PIPE,
        stdout=asyncio.subprocess.PIPE,
        limit=LIMIT_BYTES,
    )
    assert process.stdin is not None
    assert process.stdout is not None
    try:
        process.stdin.write(json.dumps({"kind": kind, **settings}).encode() + b"\n")
        line = await process.stdout.readline()
        assert json.loads(line) == "ready", line
        yield Crowd(process)
        process.stdin.close()
        async with asyncio.timeout(30):
            await process.wait()
    finally:
        if process.returncode is None:
            process.kill()
            await process.wait()


def say(what: object) -> None:
    print(json.dumps(what), flush=True)


KINDS = {"agents": agents, "clients": clients, "watchers": watchers}


async def main() -> None:
    """The process."""
    lines = asyncio.StreamReader(limit=LIMIT_BYTES)
    loop = asyncio.get_running_loop()
    await loop.connect_read_pipe(lambda: asyncio.StreamReaderProtocol(lines), sys.stdin)
    settings = json.loads(await lines.readline())
    await KINDS[settings.pop("kind")](settings, lines)


if __name__ == "__main__":
    asyncio.run(main())
