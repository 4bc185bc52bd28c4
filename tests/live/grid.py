"""A whole grid of real processes for tests: a daemon and agents with emulated managers.

    with live_grid(tmp_path, sites={"delft": 4, "leiden": 4}) as grid:
        async with grid.client() as client:
            await grid.ready(client)
            ...
            grid.kill("delft"); grid.start("delft")

Each process may be killed, stopped and started again by its name ("daemon" is one). All that a grid
starts carries its mark in the environment, so its processes are told from those of others; at the
end nothing may be left of them, and no log may hold a traceback.
"""

from __future__ import annotations

import asyncio
import os
import secrets
import signal
import subprocess
import threading
from collections.abc import (
    AsyncGenerator,
    AsyncIterator,
    Callable,
    Collection,
    Iterator,
    Mapping,
    Sequence,
)
from contextlib import aclosing, asynccontextmanager, contextmanager, suppress
from pathlib import Path
from typing import Any

import grpc
import psutil

from koala.client import TERMINAL_PHASES, AsyncClient
from koala.client.records import Notice, SiteStatus
from koala.common.identity.credentials import find_credentials
from koala.common.identity.tls import DAEMON_HOST, secure_channel
from koala.common.wire.status import TOKEN_KEY, TOKEN_SCHEME, Metadata
from koala.daemon.auth.local_provisioning import provision
from koala.errors import TimeLimitError, UnreachableError
from koala.views.records.phases import TerminalPhase
from tests.harness.children import program_of
from tests.harness.forked import Process, Surroundings, start
from tests.harness.moments import LOOK_S, moment, until
from tests.harness.namespaces import Namespace
from tests.harness.ports import free_port
from tests.live.evidence import Evidence

ROOT = Path(__file__).parents[2]
MARK = "TEST_GRID"
PATIENCE_S = 60.0
PHASE_S = 600.0
"""A job that waits longer for a phase will not come to it: the test fails, the others go on."""
STOP_S = 60.0
LONGEST_S = 120.0
"""How long a test waits for the end of a job that says nothing else."""
UMASK = 0o002
"""What daemon and agents are started with, as by an account with a group of its own."""

CALM: dict[str, float] = {
    "claiming_step_min_s": 0.05,
    "hold_s": 30.0,
    "hold_lease_s": 20.0,
    "run_lease_s": 60.0,
    "late_max_s": 10.0,
    "kill_s": 0.5,
    "pause_max_s": 1.0,
}
"""Leases that no busy machine outlasts, for tests that are not about their end."""

HASTY: dict[str, float] = {**CALM, "hold_lease_s": 3.0, "run_lease_s": 3.0, "late_max_s": 2.0}
"""Leases that run out within a test."""


class _BoundedClient(AsyncClient):
    """A client whose waits end, with what Koala says, before the run of all tests does."""

    async def wait_all(
        self, jobs: Sequence[str], *, timeout: float | None = None
    ) -> dict[str, TerminalPhase]:
        try:
            return await super().wait_all(jobs, timeout=timeout or LONGEST_S)
        except TimeLimitError as error:
            if timeout is None:
                for job in jobs:
                    error.add_note(f"{job}: {await self.why(job)}")
            raise


class Grid:
    """The processes of one grid. See the module."""

    patience_s = PATIENCE_S
    """How long is waited for what must come."""

    def __init__(
        self,
        folder: Path,
        *,
        sites: Mapping[str, int],
        parameters: Mapping[str, Any] = CALM,
        grace_s: float = 20.0,
        silence_s: float = 5.0,
        more: Mapping[str, str] | None = None,
        speeds: Mapping[str, float] | None = None,
        gpus: Mapping[str, int] | None = None,
        host: str = "127.0.0.1",
        spaces: Mapping[str, Namespace] | None = None,
    ) -> None:
        """The daemon is at this host; agents run in these namespaces."""
        self.folder = folder
        self.sites = tuple(sites)
        self.processors = dict(sites)
        self.evidence = Evidence(folder / "evidence")
        self.mark = secrets.token_hex(8)
        self.releases: dict[str, str] = {}  # Python that makes a process one of another release
        self.shells: dict[str, Mapping[str, str]] = {}
        self.has_batch_jobs: Callable[[], bool] = lambda: False
        """Variables of the shells in which agents are started."""
        self._processes: dict[str, Process] = {}
        self._was_killed = False
        self._spaces = spaces or {}
        self.address = f"{host}:{free_port()}"
        self.state = folder / "state"
        self.spool = self.state / "daemon" / "spool" / "jobs"
        self.state.mkdir(parents=True, exist_ok=True)
        self._parameters = parameters
        self._grace_s = grace_s
        self._silence_s = silence_s
        self._more = more or {}
        self._speeds = speeds or {}
        self._gpus = gpus or {}
        self.config("daemon").write_text(self.daemon_toml(), encoding="utf-8")
        for name, processors in sites.items():
            self.config(name).write_text(self.agent_toml(name, processors), encoding="utf-8")
        provision(
            self.state / "daemon", {name: self.state / name for name in sites}, lifetime_s=86_400.0
        )

    def daemon_toml(self) -> str:
        """Return the first lines of the daemon's configuration."""
        lines = "".join(f"{name} = {_toml(value)}\n" for name, value in self._parameters.items())
        return (
            f'[daemon]\nlisten = "{self.address}"\nstate_dir = "daemon"\nbeat_s = 0.5\n'
            f"silence_s = {self._silence_s}\n[parameters]\n{lines}{self._more.get('daemon', '')}"
        )

    def agent_toml(self, name: str, processors: int) -> str:
        """Return the first lines of a site's configuration."""
        return (
            f'[agent]\nsite = "{name}"\ndaemon = "{self.address}"\nstate_dir = "{name}"\n'
            f"silence_s = 6.0\n[site]\nprocessors = {processors}\ngrace_s = {self._grace_s}\n"
            f"mips = {self._speeds.get(name, 1000.0)}\ngpus = {self._gpus.get(name, 0)}\n"
            f'[files]\nserve = "127.0.0.1:0"\n{self._more.get(name, "")}'
        )

    def config(self, name: str) -> Path:
        """The configuration file of the daemon or of a site's agent."""
        return self.state / f"{name}.toml"

    def store(self, site: str) -> Path:
        """The folder of a site's replicas."""
        return self.state / site / "files"

    def log_path(self, name: str) -> Path:
        """Return the path of the log of the daemon or an agent."""
        return self.state / f"{name}.log"

    # --- processes --------------------------------------------------------------------------------

    def start(self, *names: str) -> None:
        """Start these, by default all that are not alive: the daemon, then the agents."""
        for name in names or ("daemon", *self.sites):
            if not self.is_alive(name):
                self._processes[name] = self._start(name)

    def kill(self, *names: str) -> None:
        """SIGKILL, one right after the other; returns when they are gone."""
        self._was_killed = True
        for name in names:
            self._processes[name].kill()
        for name in names:
            self._processes[name].wait(STOP_S)

    def signal(self, name: str, number: signal.Signals) -> None:
        """Send a signal to the daemon or an agent."""
        self._processes[name].send_signal(number)

    def ended(self, name: str) -> int:
        """Wait until it has ended by itself; its exit status."""
        return self._processes[name].wait(STOP_S)

    def is_alive(self, name: str) -> bool:
        """True when it was started and has not ended."""
        found = self._processes.get(name)
        return found is not None and found.poll() is None

    def exit_status(self, name: str) -> int | None:
        """Return its exit status; negative after a signal, None as long as it lives."""
        return self._processes[name].poll()

    def pid(self, name: str) -> int:
        """Its process id."""
        return self._processes[name].pid

    def terminate(self, name: str, *, limit_s: float = STOP_S) -> int:
        """SIGTERM; its exit status."""
        self._processes[name].terminate()
        return self._processes[name].wait(limit_s)

    def log(self, name: str) -> str:
        """Read what the daemon or an agent wrote, in all its lives."""
        with suppress(FileNotFoundError):
            return self.log_path(name).read_text(encoding="utf-8", errors="replace")
        return ""

    def _start(self, name: str) -> Process:
        module = "koala.daemon.__main__" if name == "daemon" else "koala_agent.__main__"
        release = self.releases.get(name, "")
        program = program_of(module, release)
        with self.log_path(name).open("ab") as log:
            around = Surroundings(
                stdout=log,
                stderr=log,
                environment={**self.environment(), **self.shells.get(name, {})},
                folder=self.folder,
                umask=UMASK,
                is_session=True,
            )
            # Another release must be made before anything is imported.
            return start(
                program,
                str(self.config(name)),
                around=around,
                prefix=self._spaces[name].prefix if name in self._spaces else (),
                by_exec=bool(release),
            )

    def environment(self) -> dict[str, str]:
        """Return the environment of a shell in which nothing is installed, and the grid's mark."""
        return {
            **os.environ,
            "PYTHONPATH": os.pathsep.join(
                (str(ROOT), str(ROOT / "agents"), os.environ.get("KOALA_TEST_PATH", ""))
            ),
            MARK: self.mark,
        }

    # --- what runs --------------------------------------------------------------------------------

    def processes(self, claim: str = "") -> dict[int, str]:
        """Starters and programs of claims that begin with this text: process id to claim."""
        found = {}
        for pid, variables in self._marked():
            name = variables.get("KOALA_CLAIM")
            if name is not None and name.startswith(claim):
                found[pid] = name
        return found

    def starters(self, claim: str = "", site: str = "") -> dict[int, str]:
        """Those of them that are starters, of one site only if it is named. A program that was
        forked and is held back looks like its starter, but for its parent."""
        folder = str(self.state / site)
        found = {
            pid: name
            for pid, name in self.processes(claim).items()
            if _is_starter(pid) and folder in _command(pid)
        }
        return {pid: name for pid, name in found.items() if _parent(pid) not in found}

    def relays(self) -> list[int]:
        """The daemon's relay, and those that a killed daemon left and that end soon."""
        return [pid for pid, _ in self._marked() if "koala.daemon.files.relay" in _command(pid)]

    def parents(self, site: str = "") -> list[int]:
        """The resident parents of starters, of one site only if it is named."""
        folder = str(self.state / site)
        commands = {pid: _command(pid) for pid, _ in self._marked()}
        return [pid for pid, words in commands.items() if " resident " in words and folder in words]

    def idle_starters(self) -> list[int]:
        """The starters that have no claim for now, and end with their agents."""
        return [pid for pid, _ in self._marked() if _command(pid).split()[-1:] == ["idle"]]

    def programs(self, claim: str = "") -> dict[int, str]:
        """Those of them that are not starters."""
        return {pid: name for pid, name in self.processes(claim).items() if not _is_starter(pid)}

    async def nothing_left(self, claim: str = "") -> None:
        """Wait until no process of these claims is left."""
        await until(lambda: not self.processes(claim), self.patience_s)

    def _marked(self) -> Iterator[tuple[int, dict[str, str]]]:
        mark = f"{MARK}={self.mark}".encode()
        for place in Path("/proc").glob("[0-9]*/environ"):
            with suppress(OSError):
                words = place.read_bytes().split(b"\0")
                if mark in words:
                    pairs = (word.decode(errors="replace").partition("=") for word in words)
                    yield int(place.parent.name), {name: value for name, _, value in pairs}

    # --- clients ----------------------------------------------------------------------------------

    @asynccontextmanager
    async def client(self) -> AsyncIterator[AsyncClient]:
        """A client of this grid's daemon, which waits for no job in vain."""
        async with _BoundedClient(self.address) as client:
            yield client

    @asynccontextmanager
    async def channel(self) -> AsyncIterator[tuple[grpc.aio.Channel, Metadata]]:
        """A bare channel to the daemon, and what shows who we are, for messages that no client of
        ours would send."""
        found = find_credentials(self.address)
        assert found is not None
        shown = ((TOKEN_KEY, TOKEN_SCHEME + found.token),)
        channel = secure_channel(self.address, DAEMON_HOST, authority=found.authority, options=())
        async with channel:
            yield channel, shown

    async def up(self, client: AsyncClient) -> None:
        """Wait until the daemon answers."""
        async with asyncio.timeout(self.patience_s):
            while self.is_alive("daemon"):
                with suppress(UnreachableError):
                    await client.hello()
                    return
                await moment()
        raise AssertionError(f"the daemon is not running:\n{self.tail('daemon')}")

    async def ready(
        self, client: AsyncClient, *sites: str, states: Collection[str] = ("usable",)
    ) -> None:
        """Wait until the daemon answers and these sites, by default all, are usable (or in one of
        these states)."""
        await self.up(client)
        wanted = set(sites or self.sites)
        async with asyncio.timeout(self.patience_s):
            # No notice tells of a site whose batch system answers again.
            while not wanted <= {s["site"] for s in await client.sites() if s["state"] in states}:
                await moment()

    async def phase(self, client: AsyncClient, job: str, *phases: str) -> str:
        """Wait until a job has come to one of these phases; which one. Ends count as a failure."""
        async with asyncio.timeout(PHASE_S), aclosing(_notices(client, job)) as notices:
            async for notice in notices:
                if notice["phase"] in phases:
                    return str(notice["phase"])
                assert notice["phase"] not in TERMINAL_PHASES, await client.show(job)
        raise AssertionError("a watch has no end")

    async def idle(self, client: AsyncClient, processors: int) -> None:
        """Wait until the sites together report so many idle processors: a site tells its figures
        some time after the end of what was there."""
        async with asyncio.timeout(self.patience_s):
            while sum(site["idle"] for site in await client.sites()) != processors:
                await moment()

    async def crowded(self, client: AsyncClient, site: str) -> SiteStatus:
        """Wait until local users have all of a site; the site."""
        async with asyncio.timeout(self.patience_s):
            while True:
                found = next(s for s in await client.sites() if s["site"] == site)
                if found["local"] == found["processors"]:
                    return found
                await moment()

    async def at_rest(self, client: AsyncClient) -> None:
        """Wait until no claim is in the ledger and nothing runs."""
        async with asyncio.timeout(self.patience_s):
            while (await client.metrics())["claims"]:
                await moment()
            await self.nothing_left()
            while self.has_batch_jobs():  # they leave after their claims
                await moment()

    # --- the end ----------------------------------------------------------------------------------

    def settle(self) -> None:
        """Wait until no starter and no program is left: they end a little after their jobs."""
        for _ in range(int(self.patience_s / LOOK_S)):
            if not self.processes():
                break
            threading.Event().wait(LOOK_S)

    def stop(self) -> None:
        """End all processes in order; says what is left then, and kills it."""
        for name in (*self.sites, "daemon"):
            if self.is_alive(name):
                self.signal(name, signal.SIGCONT)
                self._processes[name].terminate()
        late = []
        for name, process in self._processes.items():
            try:
                process.wait(STOP_S)
            except subprocess.TimeoutExpired:
                late.append(name)
                process.kill()
                process.wait(STOP_S)
        dependent = (*self.relays(), *self.parents()) if self._was_killed else ()
        for pid in (*dependent, *self.idle_starters()):
            with suppress(psutil.Error):  # they see the end of their agent a moment later
                psutil.Process(pid).wait(STOP_S)
        left = {pid: _command(pid) for pid, _ in self._marked()}
        for pid in left:
            with suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
        assert (late, left) == ([], {}), f"did not end on SIGTERM: {late}; left behind: {left}"

    def check(self) -> None:
        """Check what must hold at the end of every test."""
        self.evidence.check()
        for name in ("daemon", *self.sites):
            assert "Traceback" not in self.log(name), self.tail(name)

    def tail(self, name: str, lines: int = 60) -> str:
        """The end of a log."""
        return "\n".join(self.log(name).splitlines()[-lines:])


@contextmanager
def running_at(grid: Grid, addresses: Mapping[str, str]) -> Iterator[Grid]:
    """Run a grid whose sites have these addresses for other sites; check it at the end."""
    for site, address in addresses.items():
        config = grid.config(site)
        text = config.read_text(encoding="utf-8")
        config.write_text(text.replace("[site]\n", f'[site]\naddress = "{address}"\n'))
    try:
        grid.start()
        yield grid
    finally:
        grid.stop()
    grid.check()


@contextmanager
def live_grid(
    folder: Path,
    *,
    sites: Mapping[str, int],
    parameters: Mapping[str, Any] = CALM,
    replicas: Mapping[str, tuple[bytes, Sequence[str]]] | None = None,
    grace_s: float = 20.0,
    silence_s: float = 5.0,
    more: Mapping[str, str] | None = None,
    speeds: Mapping[str, float] | None = None,
    gpus: Mapping[str, int] | None = None,
) -> Iterator[Grid]:
    """A grid that is started, and ended and checked when the block is left. `replicas` are logical
    files: what is in them, and the sites that have them. The daemon cuts a link after `silence_s`.
    `more` is added to the configurations of agents, or of the "daemon"; `speeds` are in MIPS.
    """
    grid = Grid(
        folder,
        sites=sites,
        parameters=parameters,
        grace_s=grace_s,
        silence_s=silence_s,
        more=more,
        speeds=speeds,
        gpus=gpus,
    )
    for name, (content, holders) in (replicas or {}).items():
        for site in holders:
            grid.store(site).mkdir(parents=True, exist_ok=True)
            (grid.store(site) / name).write_bytes(content)
    with started(grid):
        yield grid


@contextmanager
def started(grid: Grid) -> Iterator[None]:
    """Its processes run until the block is left, and are checked then."""
    try:
        grid.start()
        yield
    except BaseException as error:
        for name in ("daemon", *grid.sites):
            error.add_note(f"--- {name} said:\n{grid.tail(name)}")
        with suppress(AssertionError):
            grid.stop()
        raise
    grid.settle()
    grid.stop()
    grid.check()


async def _notices(client: AsyncClient, job: str = "") -> AsyncGenerator[Notice, None]:
    async for notice in client.watch(after=0, job=job):
        yield notice


def _is_starter(pid: int) -> bool:
    return "starter.py" in _command(pid)


def _parent(pid: int) -> int:
    with suppress(OSError):
        return int(Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[1])
    return 0


def _command(pid: int) -> str:
    with suppress(OSError):
        words = Path(f"/proc/{pid}/cmdline").read_bytes().split(b"\0")
        return " ".join(word.decode(errors="replace") for word in words)
    return ""


def _toml(value: object) -> str:
    return f'"{value}"' if isinstance(value, str) else str(value)
