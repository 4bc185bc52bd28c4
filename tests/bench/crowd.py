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
from contextlib import AsyncExitStack, asynccontextmanager, suppress
from dataclasses import dataclass, field
from itertools import pairwise
from pathlib import Path
from time import perf_counter
from typing import Any

import grpc

from koala.client import AsyncClient, AsyncJobHandle, Submission
from koala.common.identity.credentials import Credentials
from koala.common.identity.tls import IdentityFile, identity_path
from koala.common.runtime.clock import unix_now
from koala.common.wire.v1 import link_pb2
from koala.errors import KoalaError
from tests.bench.figures import percentile
from tests.daemon.fake_agent import FakeAgent
from tests.harness.children import module_command

END_S = 120.0  # for a process to end, on a busy machine
LIMIT_BYTES = 64 * 1024 * 1024  # a line of figures
PLACES = 32
"""Agents that connect at a time: a handshake is work for both sides."""


def shape(values: Sequence[float]) -> dict[str, float]:
    """Summarise what was measured, in the unit of the values."""
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
                try:
                    await asyncio.wait({connecting, registered}, return_when="FIRST_COMPLETED")
                except asyncio.CancelledError:
                    connecting.cancel()
                    raise
                finally:
                    registered.cancel()
            await connecting
            await pause(0.1)

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
        stop(staying)


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
            await pause(0.01)


# --- clients --------------------------------------------------------------------------------------


def credentials(settings: dict[str, Any]) -> Credentials | None:
    """Return those of a user that was made for this; None: those of this account."""
    if "token" not in settings:
        return None
    return Credentials(token=settings["token"], authority=settings["authority"].encode())


@asynccontextmanager
async def connected(settings: dict[str, Any]) -> AsyncIterator[list[AsyncClient]]:
    """So many clients, each with a connection of its own."""
    shown = credentials(settings)
    async with AsyncExitStack() as stack:
        crowd = [
            AsyncClient(settings["address"], credentials=shown) for _ in range(settings["clients"])
        ]
        for client in crowd:
            await stack.enter_async_context(client)
            await client.hello()
        yield crowd


@dataclass
class Submitting:
    """Collect the outcome of submissions."""

    settings: dict[str, Any]
    latencies: list[float] = field(default_factory=list)
    outcomes: Counter[str] = field(default_factory=Counter)

    async def submit(self, client: AsyncClient, number: int) -> None:
        """One client's share, one call after the other."""
        settings, lot = self.settings, self.settings.get("lot", 1)
        for first in range(0, settings["jobs"], lot):
            last = min(first + lot, settings["jobs"])
            keys = [f"{settings['name']}-{number}-{n}" for n in range(first, last)]
            texts = [
                Submission(rsl=settings["rsl"], key=key, reject_if_full=settings["reject_if_full"])
                for key in keys
            ]
            begun_at = perf_counter()
            results: list[AsyncJobHandle | KoalaError] = []
            try:
                results += await client.submit_many(texts)
            except KoalaError as error:
                results += [error] * len(texts)
            self.latencies.append(perf_counter() - begun_at)
            for result in results:
                kind = "accepted" if isinstance(result, AsyncJobHandle) else type(result).__name__
                self.outcomes[kind] += 1


async def clients(settings: dict[str, Any], lines: asyncio.StreamReader) -> None:
    """Each submits its share one after the other when it is told to, and may watch."""
    seen: Counter[int] = Counter()

    async def watch(client: AsyncClient, number: int) -> None:
        async for _ in client.watch(after=-1):
            seen[number] += 1

    async with connected(settings) as crowd, asyncio.TaskGroup() as group:
        watching = [group.create_task(watch(c, n)) for n, c in enumerate(crowd)]
        if not settings["watch"]:
            stop(watching)
        say("ready")
        async for _ in lines:
            counted, begun_at = Submitting(settings), perf_counter()
            async with asyncio.TaskGroup() as submitting:
                for number, client in enumerate(crowd):
                    submitting.create_task(counted.submit(client, number))
            say(
                {
                    "took_s": perf_counter() - begun_at,
                    "latency_s": shape(counted.latencies),
                    "outcomes": dict(counted.outcomes),
                    "seen": sum(seen.values()),
                }
            )
        stop(watching)


# --- watchers -------------------------------------------------------------------------------------


class Watching:
    """Collect what watchers have seen, how late it came, and whether all have seen what is
    wanted."""

    def __init__(self, count: int, stops_after: int) -> None:
        self.delays: list[float] = []
        self.numbers: list[list[int]] = [[] for _ in range(count)]
        self.go_on = asyncio.Event()
        self._stops_after = stops_after
        self._changed = asyncio.Event()

    async def watch(self, client: AsyncClient, number: int) -> None:
        """One watcher, which takes nothing more after so many until it is told to go on."""
        seen = self.numbers[number]
        async for notice in client.watch(after=-1):
            self.delays.append(max(0.0, unix_now() - notice["at"]))
            seen.append(notice["number"])
            self._changed.set()
            if len(seen) == self._stops_after:
                await self.go_on.wait()

    async def until(self, wanted: int) -> None:
        """All have seen the notice of this number."""
        while not all(seen and seen[-1] >= wanted for seen in self.numbers):
            self._changed.clear()
            await self._changed.wait()

    def gaps(self) -> int:
        """Count the numbers that did not follow the one before."""
        return sum(after != before + 1 for seen in self.numbers for before, after in pairwise(seen))


async def watchers(settings: dict[str, Any], lines: asyncio.StreamReader) -> None:
    """Watch everything. Each line has the number of a notice: go on, and answer when all have
    seen it."""
    watching = Watching(settings["clients"], settings["stops_after"])
    async with connected(settings) as crowd, asyncio.TaskGroup() as group:
        tasks = [group.create_task(watching.watch(c, number)) for number, c in enumerate(crowd)]
        say("ready")
        async for line in lines:
            watching.go_on.set()
            await watching.until(int(line))
            seen = sum(map(len, watching.numbers))
            say({"delay_s": shape(watching.delays), "seen": seen, "gaps": watching.gaps()})
        stop(tasks)


def stop(tasks: Sequence[asyncio.Task[None]]) -> None:
    for task in tasks:
        task.cancel()


async def pause(duration_s: float) -> None:
    """A time in which nothing is done here, since it is measured."""
    with suppress(TimeoutError):
        async with asyncio.timeout(duration_s):
            await asyncio.Event().wait()


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
        *module_command("tests.bench.crowd"),
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
        async with asyncio.timeout(END_S):
            await process.wait()
    finally:
        if process.returncode is None:
            process.kill()
            await process.wait()


def say(what: object) -> None:
    print(json.dumps(what), flush=True)


KINDS = {"agents": agents, "clients": clients, "watchers": watchers}


async def serve() -> None:
    """Do what standard input says."""
    lines = asyncio.StreamReader(limit=LIMIT_BYTES)
    loop = asyncio.get_running_loop()
    await loop.connect_read_pipe(lambda: asyncio.StreamReaderProtocol(lines), sys.stdin)
    settings = json.loads(await lines.readline())
    await KINDS[settings.pop("kind")](settings, lines)


def main() -> int:
    """The process."""
    asyncio.run(serve())
    return 0


if __name__ == "__main__":
    sys.exit(main())
