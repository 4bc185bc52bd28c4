"""A real agent process with an emulated local manager, for tests.

    async with agent_process(tmp_path, daemon.target, job=job, processors=4) as agent:
        ...
        await agent.kill(); await agent.start()

At the end the agent and all processes of the job's claims are killed, whatever the test did.
"""

from __future__ import annotations

import os
import secrets
import signal
import sys
import tempfile
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from pathlib import Path

from tests.agent.live.fake_daemon import patiently
from tests.harness.children import program_of
from tests.harness.forked import Process, Surroundings, start
from tests.harness.moments import until

ROOT = Path(__file__).parents[3]


def a_job() -> str:
    """A job id of its own, so that parallel tests never find one another's processes."""
    return f"t{secrets.token_hex(4)}"


class AgentProcess:
    """`koala-agent` on its own state directory; may be killed and started again."""

    def __init__(
        self, folder: Path, daemon: str, *, job: str, text: str, prefix: tuple[str, ...] = ()
    ) -> None:
        self.state_dir = folder / "state"
        self.config = folder / "agent.toml"
        self.job = job
        self.log = folder / "agent.log"
        self.process: Process | None = None
        self._prefix = prefix
        self.config.write_text(
            text.replace("DAEMON", daemon).replace("STATE", str(self.state_dir)), encoding="utf-8"
        )

    async def start(self) -> None:
        """Starts it; it dials by itself."""
        with self.log.open("ab") as log:
            around = Surroundings(stderr=log, environment=environment())
            self.process = start(PROGRAM, str(self.config), around=around, prefix=self._prefix)

    async def kill(self) -> None:
        """kill -9; claims stay."""
        assert self.process is not None
        self.process.kill()
        await patiently(self.process.ended())

    async def terminate(self) -> int:
        """SIGTERM; answers the exit status."""
        assert self.process is not None
        self.process.send_signal(signal.SIGTERM)
        return await patiently(self.process.ended())

    def processes(self) -> list[int]:
        """All living processes of the job's claims; a zombie has no environment any more."""
        mark = f"KOALA_CLAIM={self.job}/".encode()
        found = []
        for place in Path("/proc").glob("[0-9]*/environ"):
            with suppress(OSError):
                if any(line.startswith(mark) for line in place.read_bytes().split(b"\0")):
                    found.append(int(place.parent.name))
        return found

    def programs(self) -> list[int]:
        """Those of them that are not starters."""
        return [pid for pid in self.processes() if not _is_starter(pid)]

    async def nothing_left(self) -> None:
        """Waits until no process of the job's claims is left."""
        await until(lambda: not self.processes())

    def __str__(self) -> str:
        return self.log.read_text(encoding="utf-8", errors="replace")


def _is_starter(pid: int) -> bool:
    try:
        return b"starter.py" in Path(f"/proc/{pid}/cmdline").read_bytes()
    except OSError:
        return False


PROGRAM = program_of("koala_agent.__main__")
COMMAND = (sys.executable, "-c", PROGRAM)


async def command(*words: str) -> tuple[int, str, str]:
    """Run `koala-agent` to its end: its status, standard output and error."""
    with tempfile.TemporaryFile() as out, tempfile.TemporaryFile() as error:
        around = Surroundings(stdout=out, stderr=error, environment=environment())
        status = await patiently(start(PROGRAM, *words, around=around).ended())
        for stream in (out, error):
            stream.seek(0)
        return status, out.read().decode(), error.read().decode()


def environment() -> dict[str, str]:
    """Return the environment of a shell in which nothing is installed."""
    return {**os.environ, "PYTHONPATH": f"{ROOT}{os.pathsep}{ROOT / 'agents'}"}


@asynccontextmanager
async def agent_process(
    folder: Path,
    daemon: str,
    *,
    job: str,
    site: str = "delft",
    processors: int = 4,
    agent: str = "",
    accounts: str = 'user = "anna"',
    rest: str = "",
    prefix: tuple[str, ...] = (),
) -> AsyncIterator[AgentProcess]:
    """An agent of the fake daemon's only user, for the length of a block. `agent` are more keys of
    [agent], `accounts` those of [accounts]; `rest` comes after [site], whose first keys it may
    continue; `prefix` are words before the command."""
    text = f"""
[agent]
plain = true
site = "{site}"
daemon = "DAEMON"
state_dir = "STATE"
{agent}
[accounts]
{accounts}
[site]
processors = {processors}
{rest}
"""
    assert not job.startswith("j"), "the end would kill processes of other tests' jobs"
    process = AgentProcess(folder, daemon, job=job, text=text, prefix=prefix)
    await process.start()
    try:
        yield process
    except BaseException as error:
        error.add_note(f"the agent said:\n{process}")
        raise
    finally:
        await process.kill()
        for pid in process.processes():
            with suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
        await process.nothing_left()
