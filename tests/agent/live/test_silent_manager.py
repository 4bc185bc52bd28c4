"""An agent in front of a batch system that does not answer."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import asynccontextmanager
from pathlib import Path

import pytest

from koala.common.protocol.messages import Hold, Resources, Stop
from koala.common.protocol.names import ClaimId
from koala.common.protocol.queue_limits import NO_LIMITS, Times
from koala.errors import LocalManagerError
from koala_agent import claim_driver
from koala_agent.claim_driver import ClaimDriver
from koala_agent.claim_folders import ClaimFolders
from koala_agent.claim_surroundings import ClaimSurroundings, StoreThread
from koala_agent.claims.events import Forget, StoreClaim
from koala_agent.claims.settings import Limits
from koala_agent.claims.states import Asked, Claim, Withdrawing
from koala_agent.claims.store import Store
from koala_agent.lrm.local_manager import Idle, Listed, Placeholder, Queued
from koala_agent.placeholders.launch_settings import LaunchSettings
from tests.agent.site import Daemon, a_hold, boot_now

CLAIM = ClaimId("j1/1/0/1")
LIMIT_S = 60.0


class SilentManager:
    """A batch system that is away until it is told to answer, with one job in its queue."""

    def __init__(self) -> None:
        self.starts_after_stop = False
        self.honours: tuple[str, ...] = ()
        self.gate = ""
        self.answers = asyncio.Event()
        self.withdrawn: list[str] = []
        self.calls: list[str] = []
        self.submitted = asyncio.Event()
        self.gate_failures = 0
        self.is_asked = asyncio.Event()  # for a gate
        self.is_answered = asyncio.Event()
        self.is_stored = asyncio.Event()

    async def run(self) -> None:
        """See LocalManager."""

    async def opened(self) -> None:
        """See LocalManager."""

    async def close(self, *, kill: bool = False) -> None:
        """See LocalManager."""

    def times(self, resources: Resources) -> Times:
        """See LocalManager."""
        return NO_LIMITS

    def number(self, claim: str) -> str:
        """See LocalManager."""
        return ""

    def note_start(self, claim: str) -> None:
        """See LocalManager."""

    def note_left(self, claim: str, *, is_gone: bool) -> None:
        """See LocalManager."""

    async def submit(self, placeholder: Placeholder) -> None:
        """See LocalManager."""
        self.calls.append("submit")
        self.submitted.set()

    async def prepare_input(self, hold: Hold) -> None:
        """See ClaimSurroundings."""
        await asyncio.sleep(0)
        self.calls.append("prepare input")

    async def set_gate(self, claim: str, *, is_gated: bool) -> None:
        """See LocalManager: it takes until the batch system answers, and fails at first."""
        self.calls.append("gate" if is_gated else "open")
        self.is_asked.set()
        await self.answers.wait()
        if self.gate_failures:
            self.gate_failures -= 1
            raise LocalManagerError("scontrol gave no answer in 15 s", transient=True)
        self.is_answered.set()

    async def withdraw(self, claim: str) -> None:
        """See LocalManager: it takes until the batch system answers."""
        self.withdrawn.append(claim)
        self.calls.append("withdraw")
        await self.answers.wait()

    async def listing(self) -> tuple[Listed, ...]:
        """See LocalManager."""
        if not self.answers.is_set():
            raise LocalManagerError("squeue gave no answer in 15 s", transient=True)
        return (Queued(claim=CLAIM),)

    async def find(self, claim: str) -> Listed | None:
        """See LocalManager."""
        return next((entry for entry in await self.listing() if entry.claim == claim), None)

    async def idle(self) -> Idle:
        """See LocalManager."""
        return Idle(processors=4, idle=4, startable=4, queued_jobs=0, local_processors=0)


@asynccontextmanager
async def a_site_before(
    manager: SilentManager, folder: Path, *, waits: bool = False, is_gated: bool = False
) -> AsyncIterator[ClaimDriver]:
    """An agent that had a claim in its queue when it ended, started again."""
    store = Store(folder / "state")
    hold = a_hold(CLAIM, waits=waits, is_gated=is_gated)
    claim = Claim(hold=hold, secret="s" * 32, state=Asked(grace_until=boot_now() + 600.0))
    store.commit([StoreClaim(claim=claim)])
    thread = StoreThread(store)

    async def commit(writes: Sequence[StoreClaim | Forget]) -> None:
        await thread.commit(writes)
        manager.is_stored.set()

    claims = ClaimDriver(
        surroundings=ClaimSurroundings(
            store=store,
            commit=commit,
            manager=manager,
            folders=ClaimFolders(LaunchSettings(root=folder / "claims", site="here")),
            prepare_input=manager.prepare_input,
        ),
        send_report=Daemon().hear,
        limits=Limits(again_s=0.01),
    )
    try:
        async with asyncio.TaskGroup() as group:
            running = group.create_task(claims.run())
            await claims.opened()
            yield claims
            running.cancel()
    finally:
        thread.close()


async def test_what_is_stored_is_told_when_the_batch_system_is_silent(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(claim_driver, "LISTING_S", 0.05)
    manager = SilentManager()
    async with asyncio.timeout(LIMIT_S), a_site_before(manager, tmp_path) as claims:
        await claims.prepared()
        (report,) = claims.inventory()
        assert report.claim == CLAIM


async def test_the_input_of_a_claim_is_there_before_its_batch_job(tmp_path: Path) -> None:
    """A program must not be at the barrier without it."""
    manager = SilentManager()
    async with asyncio.timeout(LIMIT_S), a_site_before(manager, tmp_path) as claims:
        claims.order(a_hold("j2/1/0/1"))
        await manager.submitted.wait()
        assert manager.calls == ["prepare input", "submit"]


async def test_a_claim_is_withdrawn_after_its_gate_was_set(tmp_path: Path) -> None:
    manager = SilentManager()
    async with asyncio.timeout(LIMIT_S), a_site_before(manager, tmp_path) as claims:
        claims.order(a_hold(CLAIM, is_gated=True))
        await manager.is_asked.wait()
        claims.order(Stop(claim=CLAIM))
        await stored(manager, lambda: isinstance(claims.claims[CLAIM].state, Withdrawing))
        for _ in range(10):
            await asyncio.sleep(0)
        assert manager.calls == ["gate"]
        manager.answers.set()
        await withdrawn()
        assert manager.calls[:2] == ["gate", "withdraw"]


async def stored(manager: SilentManager, condition: Callable[[], bool]) -> None:
    """Returns when the stored claims are so."""
    while not condition():
        manager.is_stored.clear()
        await manager.is_stored.wait()


async def withdrawn() -> None:
    """Returns when no withdrawal is under way."""
    await called("_withdraw")


async def called(method: str) -> None:
    """Returns when no such call of the driver is under way."""
    tasks = [
        task for task in asyncio.all_tasks() if f"ClaimDriver.{method} " in str(task.get_coro())
    ]
    await asyncio.gather(*tasks)
