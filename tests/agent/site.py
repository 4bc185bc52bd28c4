"""A site on this machine with a stand-in for the daemon: real starters, sockets, store, queue."""

from __future__ import annotations

import asyncio
import math
import os
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path

from koala.common.protocol.messages import (
    Acknowledge,
    Arm,
    ArmNumber,
    Hold,
    KvAnswer,
    KvGet,
    KvPut,
    PathsReport,
    Peer,
    Ping,
    Pong,
    PortsUsed,
    Program,
    Progress,
    Release,
    Report,
    ReportState,
    ToDaemon,
)
from koala.common.protocol.names import ClaimId
from koala_agent.claim_driver import ClaimDriver
from koala_agent.claim_folders import ClaimFolders
from koala_agent.claim_surroundings import ClaimSurroundings, StoreThread, no_archive, no_input
from koala_agent.claims.events import Forget, StoreClaim
from koala_agent.claims.settings import LeaseTimes, Limits
from koala_agent.claims.store import Store
from koala_agent.lrm.batch_system import find_system
from koala_agent.lrm.emulated.emulated_manager import EmulatedLocalManager
from koala_agent.lrm.emulated.emulated_settings import EmulatedSettings
from koala_agent.lrm.local_manager import Idle, Listed
from koala_agent.placeholders.launch_settings import LaunchSettings
from koala_agent.starter.batch_rules import BatchRules
from tests.lrm.harness import serving

LIMIT_S = 60.0


def boot_now() -> float:
    return time.clock_gettime(time.CLOCK_BOOTTIME)


def own_claim(number: int = 0) -> str:
    """Name a claim that no other process of tests has: sites end what bears the name of theirs."""
    return f"t{os.getpid()}/1/{number}/1"


PORT = 20_000
"""The `MASTER_PORT` of every claim."""


def a_hold(claim: str = "j1/1/0/1", *, processors: int = 1, **changes: object) -> Hold:
    """A claim that runs /bin/true; the program's fields and the hold's by name."""
    program = {k: changes.pop(k) for k in list(changes) if k in Program.__dataclass_fields__}
    return Hold(
        claim=ClaimId(claim),
        port=PORT,
        processors=processors,
        hold_s=float(str(changes.pop("hold_s", 60.0))),
        no_barrier=bool(changes.pop("no_barrier", False)),
        program=Program(**{"executable": "/bin/true", **program}),  # type: ignore[arg-type]
        **changes,  # type: ignore[arg-type]
    )


def a_shell_hold(script: str, claim: str = "j1/1/0/1", **changes: object) -> Hold:
    """A claim that runs a shell script."""
    program = {"executable": "/bin/sh", "arguments": ("-c", script)}
    return a_hold(claim, **{**program, **changes})  # type: ignore[arg-type]


def an_arm(
    hold: Hold, *, counter: int = 1, in_s: float = 0.1, late_s: float = 10.0, peers: int = 0
) -> Arm:
    """An Arm of this claim, with so many peers before it."""
    others = tuple(
        Peer(
            component=i + 1,
            label=f"peer{i}",
            site="elsewhere",
            processors=2,
            processes=2,
            address=f"10.0.0.{i + 1}",
            port=PORT,
            claim=ClaimId(f"j1/1/{i + 1}/1"),
        )
        for i in range(peers)
    )
    itself = Peer(
        component=int(hold.claim.split("/")[2]),
        label=hold.program.label,
        site="here",
        processors=hold.processors,
        processes=hold.program.processes,
        address="127.0.0.1",
        port=hold.port,
        claim=hold.claim,
    )
    return Arm(
        claim=hold.claim,
        number=ArmNumber(epoch=1, counter=counter),
        release_at=time.time() + in_s,
        late_s=late_s,
        peers=(*others, itself),
    )


@dataclass
class Daemon:
    """Answers pings and values, acknowledges what is gone, remembers what it was told."""

    send: Callable[[object], None] = lambda _order: None
    is_answering: bool = True
    answered: int = 0  # pings
    is_acknowledging: bool = True
    tried: list[str] = field(default_factory=list)
    heard: list[ToDaemon] = field(default_factory=list)
    reports: list[Report] = field(default_factory=list)
    progress: list[Progress] = field(default_factory=list)
    values: dict[str, str] = field(default_factory=dict)
    waiting: list[KvGet] = field(default_factory=list)
    changed: asyncio.Event = field(default_factory=asyncio.Event)

    def hear(self, message: ToDaemon) -> None:  # noqa: C901 - a line a kind
        self.heard.append(message)
        match message:
            case Report():
                self.reports.append(message)
                if message.state is ReportState.GONE and self.is_acknowledging:
                    self.send(Acknowledge(claim=message.claim))
            case Ping(claim=claim, nonce=nonce, sent_at=sent_at):
                if self.is_answering:
                    self.answered += 1
                    pong = Pong(claim=claim, nonce=nonce, sent_at=sent_at, now=time.time())
                    self.send(pong)
            case KvPut(claim=claim, request=request, name=name, value=value):
                is_same = self.values.setdefault(name, value) == value
                error = "" if is_same else f"{name!r} has another value"
                self.send(KvAnswer(claim=claim, request=request, ok=is_same, error=error))
            case Progress():
                self.progress.append(message)
            case PathsReport(problem=problem):
                self.tried.append(problem)
            case KvGet():
                self.waiting.append(message)
            case PortsUsed():
                pass
        for get in [get for get in self.waiting if get.name in self.values]:
            self.waiting.remove(get)
            value = self.values[get.name]
            self.send(KvAnswer(claim=get.claim, request=get.request, ok=True, value=value))
        self.changed.set()

    async def wait_for(self, state: ReportState, claim: str = "j1/1/0/1") -> Report:
        """The first report of this state on this claim."""
        async with asyncio.timeout(LIMIT_S):
            while True:
                for report in self.reports:
                    if report.claim == claim and report.state is state:
                        return report
                self.changed.clear()
                await self.changed.wait()


@dataclass
class Site:
    """Hold the agent, its folders and its local manager for a test."""

    claims: ClaimDriver
    daemon: Daemon
    manager: EmulatedLocalManager
    folders: ClaimFolders
    commits: list[int] = field(default_factory=list)
    """Changes of each commit of the claim store."""

    async def granted(self, hold: Hold) -> Report:
        self.claims.order(hold)
        return await self.daemon.wait_for(ReportState.GRANTED, hold.claim)

    async def armed(self, hold: Hold, arm: Arm) -> Report:
        await self.granted(hold)
        self.claims.order(arm)
        return await self.daemon.wait_for(ReportState.ARMED, hold.claim)

    async def passed(self, hold: Hold, *, peers: int = 0) -> Report:
        """Takes a claim through the barrier."""
        arm = an_arm(hold, peers=peers)
        await self.armed(hold, arm)
        self.release(arm)
        return await self.daemon.wait_for(ReportState.PASSED, hold.claim)

    def release(self, arm: Arm) -> None:
        self.claims.order(Release(claim=arm.claim, number=arm.number, release_at=arm.release_at))

    async def gone(self, claim: str = "j1/1/0/1") -> Report:
        return await self.daemon.wait_for(ReportState.GONE, claim)


@asynccontextmanager
async def a_site(
    folder: Path,
    *,
    leases: LeaseTimes | None = None,
    limits: Limits | None = None,
    daemon: Daemon | None = None,
    processors: int = 8,
    keep_s: float = float("inf"),
    scratch: Path | None = None,
    python: Path | None = None,
    kind: str = "",
    input_named: Callable[[Hold, str], str] = no_input,
    archive: Callable[[Hold], Awaitable[Path | None]] = no_archive,
    room_bytes: Callable[[], float] = lambda: math.inf,
) -> AsyncIterator[Site]:
    """A site in a folder; a second one in the same folder is the agent started again. With
    `scratch` starters see nothing of the agent's and work there; they take the local manager for
    one of this kind."""
    daemon = daemon or Daemon()
    leases = leases or LeaseTimes(kill_s=1.0)
    told: list[Callable[[Listed | Idle], None]] = []
    commits: list[int] = []
    manager = EmulatedLocalManager(
        EmulatedSettings(processors=processors, state_directory=folder / "queue", kill_s=2.0),
        on_report=lambda entry: told[0](entry) if told else None,
        clock=boot_now,
    )
    store = Store(folder / "state")
    thread = StoreThread(store)

    async def commit(writes: Sequence[StoreClaim | Forget]) -> None:
        commits.append(len(writes))
        await thread.commit(writes)

    folders = ClaimFolders(
        LaunchSettings(
            root=folder / "claims",
            site="here",
            shared=scratch is None,
            scratch="" if scratch is None else str(scratch),
            python=None if python is None else str(python),
            rules=find_system(kind).rules if kind else BatchRules(),
        )
    )
    claims = ClaimDriver(
        surroundings=ClaimSurroundings(
            store=store,
            manager=manager,
            folders=folders,
            commit=commit,
            input_named=input_named,
            archive=archive,
            room_bytes=room_bytes,
        ),
        send_report=daemon.hear,
        limits=limits or Limits(grace_s=60.0),
        keep_s=keep_s,
    )
    daemon.send = claims.order  # type: ignore[assignment]
    told.append(claims.handle_listed)
    try:
        async with serving(manager), asyncio.TaskGroup() as group:
            running = group.create_task(claims.run())
            await claims.opened()
            claims.set_leases(leases)
            yield Site(claims, daemon, manager, folders, commits)
            running.cancel()
    finally:
        thread.close()
