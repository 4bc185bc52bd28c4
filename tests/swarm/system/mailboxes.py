"""Simulated mailbox: a folder that a login node and compute nodes share, and a slow file server.

Each machine sees what the other did in its own time, and each file for itself. So messages become
visible late, never, or in another order than they were written, and a file that was removed is
still there for a while, for its remover, too. The agent's end and the client are the real ones.
"""

from __future__ import annotations

import errno
import json
import math
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field

from koala.common.protocol.names import ClaimId
from koala.core.model.values import Instant, Seconds
from koala.lab.sim.engine import Engine
from koala_agent.starter.mailbox.layout import DOWN, UP, unseal
from koala_agent.transport.interface import FileStatus
from tests.swarm.system.faults import FaultPlan

AGENT, NODES = "agent", "nodes"
OWNER = 1000


@dataclass(slots=True)
class Entry:
    """A file or folder: since when each machine sees it, and until when."""

    content: bytes | None
    since: dict[str, Instant] = field(default_factory=dict)
    until: dict[str, Instant] = field(default_factory=dict)

    def is_seen(self, by: str, now: Instant) -> bool:
        """True when this machine sees it."""
        return self.since[by] <= now < self.until.get(by, math.inf)


class SharedFolder:
    """The folder, as both machines see it. Calls raise OSError as those of `os` do.

    Some file servers are slow by nature, also when faults have stopped: a change takes up to
    `_spread_s`, and a share `_again` of the removed files is still listed at the next look.
    """

    def __init__(self, engine: Engine, plan: FaultPlan) -> None:
        self._engine = engine
        self._plan = plan
        self._spread_s = plan.stream("file server").choice((0.02, 0.4))
        self._again = plan.stream("file server").choice((0.0, 0.3, 1.0))
        self._entries: dict[str, Entry] = {}

    def write(self, by: str, path: str, content: bytes | None) -> None:
        """Make a file, or a folder without content."""
        now, plan = self._engine.now, self._plan
        above = path.rpartition("/")[0]
        if above and not self._is_seen(by, above):
            raise FileNotFoundError(errno.ENOENT, "no such folder", path)
        if content is not None and plan.strikes("file_full", now):
            raise OSError(errno.EDQUOT, "the quota is full", path)
        is_lost = content is not None and plan.strikes("file_lost", now)
        other_at = math.inf if is_lost else now + self._way_s()
        self._entries[path] = Entry(content, {by: now, self._other(by): other_at})

    def remove(self, by: str, path: str) -> None:
        """Remove a file or a folder; one that is not there is no error."""
        entry = self._entries.get(path)
        if entry is None:
            return
        now = self._engine.now
        own_s = 0.3 if self._plan.stream("again").random() < self._again else 0.0
        if self._plan.strikes("file_again", now):
            own_s = self._way_s()
        for machine, at in ((by, now + own_s), (self._other(by), now + self._way_s())):
            entry.until[machine] = min(at, entry.until.get(machine, math.inf))

    def read(self, by: str, path: str) -> bytes:
        """Read a file."""
        if not self._is_seen(by, path):
            raise FileNotFoundError(errno.ENOENT, "no such file", path)
        return self._entries[path].content or b""

    def names(self, by: str, folder: str) -> list[str]:
        """List a folder."""
        if not self._is_seen(by, folder):
            raise FileNotFoundError(errno.ENOENT, "no such folder", folder)
        now = self._engine.now
        for path, entry in list(self._entries.items()):
            if len(entry.until) == 2 and max(entry.until.values()) <= now:
                del self._entries[path]
        begin = f"{folder}/"
        inside = (path for path in self._entries if path.startswith(begin))
        return sorted(
            path[len(begin) :]
            for path in inside
            if "/" not in path[len(begin) :] and self._is_seen(by, path)
        )

    def is_folder(self, by: str, path: str) -> bool | None:
        """Return whether this is a folder; None when nothing is there."""
        return self._entries[path].content is None if self._is_seen(by, path) else None

    def _is_seen(self, by: str, path: str) -> bool:
        entry = self._entries.get(path)
        return entry is not None and entry.is_seen(by, self._engine.now)

    def _way_s(self) -> Seconds:
        """Draw the time until the other machine sees a change."""
        random = self._plan.stream("file")
        quick_s = self._spread_s * random.random()
        is_late = self._plan.strikes("file_late", self._engine.now)
        return random.choice((0.3, 1.0, 5.0, 30.0)) if is_late else quick_s

    @staticmethod
    def _other(machine: str) -> str:
        return NODES if machine == AGENT else AGENT


class NodesMailbox:
    """Files of one session (`koala_agent.starter.mailbox.client.Mailbox`)."""

    def __init__(self, folder: SharedFolder, root: str, session: str) -> None:
        self._folder = folder
        self._root = root
        self._session = session
        self._down = f"{root}/{DOWN}/{session}"

    def begin(self) -> None:
        """See Mailbox."""
        self._folder.write(NODES, self._down, None)

    def write(self, number: int, content: bytes) -> None:
        """See Mailbox."""
        self._folder.write(NODES, f"{self._root}/{UP}/{self._session}.{number}", content)

    def numbers(self) -> list[int]:
        """See Mailbox."""
        return sorted(map(int, self._folder.names(NODES, self._down)))

    def read(self, number: int) -> bytes:
        """See Mailbox."""
        return self._folder.read(NODES, f"{self._down}/{number}")

    def remove(self, number: int) -> None:
        """See Mailbox."""
        self._folder.remove(NODES, f"{self._down}/{number}")

    def end(self) -> None:
        """See Mailbox."""
        for name in self._folder.names(NODES, self._down):
            self._folder.remove(NODES, f"{self._down}/{name}")
        self._folder.remove(NODES, self._down)


class AgentsMailbox:
    """The folder as the agent's `SiteFiles`. `adopted` is told which starter is adopted."""

    def __init__(
        self,
        folder: SharedFolder,
        *,
        wait: Callable[[Seconds], Awaitable[None]],
        adopted: Callable[[ClaimId, str], None],
    ) -> None:
        self._folder = folder
        self._wait = wait
        self._adopted = adopted
        self._starters: dict[str, tuple[ClaimId, str]] = {}  # by session, from its hello

    async def put(self, path: str, content: bytes, *, is_durable: bool = True) -> None:
        """See SiteFiles."""
        await self._wait(0.001)
        session = path.split("/")[-2]
        for message in _messages(content):
            if message["kind"] == "adopted":
                self._adopted(*self._starters[session])
        self._folder.write(AGENT, path, content)

    async def get(self, path: str, size_max: int) -> bytes:
        """See SiteFiles."""
        await self._wait(0.001)
        content = self._folder.read(AGENT, path)
        for message in _messages(content):
            if message["kind"] == "hello":
                session = path.rpartition("/")[2].rpartition(".")[0]
                self._starters[session] = ClaimId(str(message["claim"])), str(message["nonce"])
        return content[:size_max]

    async def stat(self, path: str) -> FileStatus | None:
        """See SiteFiles."""
        is_folder = self._folder.is_folder(AGENT, path)
        if is_folder is None:
            return None
        return FileStatus(
            size_bytes=0, is_folder=is_folder, is_file=not is_folder, owner=OWNER, mode=0o600
        )

    async def list(self, path: str) -> tuple[str, ...]:
        """See SiteFiles."""
        return tuple(self._folder.names(AGENT, path))

    async def make_folder(self, path: str) -> None:
        """See SiteFiles."""
        if not self._folder.is_folder(AGENT, path):
            self._folder.write(AGENT, path, None)

    async def remove(self, path: str) -> None:
        """See SiteFiles."""
        self._folder.remove(AGENT, path)

    async def remove_folder(self, path: str) -> None:
        """See SiteFiles."""
        self._folder.remove(AGENT, path)


def _messages(content: bytes) -> list[dict[str, object]]:
    return [json.loads(line) for line in unseal("", "", "", 0, content).splitlines()]
