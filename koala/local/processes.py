"""Processes of a grid on this machine: start them, detect their end, leave none behind.

- Every child has `GRID_VARIABLE` in its environment, and its descendants inherit it. So even a
  program that left its process group is found and killed at the end.
- Children have their own sessions: Ctrl-C reaches this process alone, which ends them in order.
- If this process is killed, the daemon and the agents end too (`child.py`), and the starters'
  leases expire.
"""

from __future__ import annotations

import contextlib
import importlib.util
import os
import secrets
import signal
import subprocess
import sys
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import IO, TYPE_CHECKING

from koala.common.runtime import clock
from koala.common.runtime.plugins import FOLDER_VARIABLE
from koala.errors import KoalaError
from koala.local.grid_file import GridFolder
from koala_agent.environments import GRID_VARIABLE

if TYPE_CHECKING:
    import psutil

WEB = "web page"
"""Name of its process; no site can have it."""
STOP_S = 10.0
"""Time limit for the orderly end of a daemon or an agent, before it is killed."""
SWEEP_S = 5.0
LOG_LINES = 8


class ChildEndedError(KoalaError):
    """The daemon or an agent ended by itself."""


class Processes:
    """Daemon and agents of one grid. Call `stop` in a `finally` block."""

    def __init__(self, folder: GridFolder) -> None:
        self._folder = folder
        self._tag = secrets.token_hex(8)
        self._children: dict[str, subprocess.Popen[bytes]] = {}

    def start_daemon(self) -> None:
        """Start the daemon; `check` reports its end."""
        self._start("daemon", "koala.daemon.__main__", str(self._folder.daemon))

    def start_agents(self) -> None:
        """Start the agents of all sites."""
        for site in self._folder.sites:
            self._start(site, "koala_agent.__main__", str(self._folder.agent(site)))

    def start_web(self, address: str, listen: str) -> None:
        """Start the web page; the grid goes on without it, if it ends."""
        words = ("web", "--address", address, "--listen", listen)
        self._start(WEB, "koala.cli.main", *words, "--link-file", str(self._folder.link))

    def has_web(self) -> bool:
        """Return True while the web page runs."""
        return self._children[WEB].poll() is None

    def check(self) -> None:
        """Raise ChildEndedError, with the end of its log, if a child has ended."""
        for name, child in self._children.items():
            if name != WEB and (status := child.poll()) is not None:
                log = self._folder.log(name)
                what = "the daemon" if name == "daemon" else f"the agent of {name}"
                raise ChildEndedError(
                    f"{what} ended by itself with status {status}; the end of {log}:\n{_tail(log)}"
                )

    def stop(self) -> None:
        """End the agents, then the daemon, then all remaining processes of the grid."""
        with _signals_ignored():
            self._end([child for name, child in self._children.items() if name != "daemon"])
            self._end([child for name, child in self._children.items() if name == "daemon"])
            self._sweep()

    def _start(self, name: str, module: str, *words: str) -> None:
        with self._folder.log(name).open("ab") as log:
            self._children[name] = start_child(
                module,
                *words,
                log=log,
                folder=self._folder.state,
                temporary=self._folder.temporary,
                environment=self._environment(),
            )

    def _environment(self) -> dict[str, str]:
        """Build a child's environment: ours, and the tag. Programs inherit it."""
        # Programs named without a path, such as python3, are those of this installation first.
        programs = [str(Path(sys.executable).parent), os.environ.get("PATH", os.defpath)]
        # Children log to files, so gRPC's messages are welcome there.
        inherited = {k: v for k, v in os.environ.items() if (k, v) != ("GRPC_VERBOSITY", "NONE")}
        return {
            **inherited,
            "PATH": os.pathsep.join(programs),
            GRID_VARIABLE: self._tag,
            FOLDER_VARIABLE: str(Path.cwd()),
        }

    def _end(self, children: list[subprocess.Popen[bytes]]) -> None:
        for child in children:
            if child.poll() is None:
                child.terminate()
        until = clock.now() + STOP_S
        for child in children:
            try:
                child.wait(max(0.0, until - clock.now()))
            except subprocess.TimeoutExpired:
                child.kill()
                child.wait()

    def _sweep(self) -> None:
        """Kill processes with the tag until none is left, or to the time limit."""
        import psutil

        until = clock.now() + SWEEP_S
        while (found := list(_tagged(self._tag))) and clock.now() < until:
            for process in found:
                with contextlib.suppress(psutil.Error):
                    process.kill()
            psutil.wait_procs(found, timeout=1.0)


CHILD = """\
import sys, tempfile
tempfile.tempdir, *sys.path[:0] = sys.argv.pop(1).split("\\n")
from koala.local.child import main
sys.exit(main())
"""
"""Program of a child: where it finds Koala and makes its own temporary files is told to it alone,
and not by variables, which programs would inherit."""


def start_child(
    module: str,
    *words: str,
    log: IO[bytes],
    folder: Path,
    temporary: Path,
    environment: Mapping[str, str],
) -> subprocess.Popen[bytes]:
    """Start a module in a session of its own, which ends with this process (`child.py`)."""
    places = "\n".join([str(temporary), *_package_folders()])
    return subprocess.Popen(
        [sys.executable, "-c", CHILD, places, str(os.getpid()), module, *words],
        stdin=subprocess.DEVNULL,
        stdout=log,
        stderr=log,
        cwd=folder,
        env=environment,
        start_new_session=True,
    )


def _tagged(tag: str) -> Iterator[psutil.Process]:
    """Find processes of this user with the tag in their environment; zombies have none."""
    import psutil

    for process in psutil.process_iter():
        with contextlib.suppress(psutil.Error):
            if process.pid != os.getpid() and process.environ().get(GRID_VARIABLE) == tag:
                yield process


def _package_folders() -> list[str]:
    """Find the folders that contain `koala` and `koala_agent`."""
    folders: list[str] = []
    for package in ("koala", "koala_agent"):
        spec = importlib.util.find_spec(package)
        if spec is not None and spec.origin is not None:
            folders.append(str(Path(spec.origin).parents[1]))
    agents = Path(folders[0]) / "agents"
    if len(folders) == 1 and agents.is_dir():
        folders.append(str(agents))
    return list(dict.fromkeys(folders))


def _tail(log: Path) -> str:
    try:
        lines = log.read_text(encoding="utf-8", errors="replace").splitlines()
    except OSError as error:
        return f"(cannot be read: {error.strerror})"
    return "\n".join(f"  {line}" for line in lines[-LOG_LINES:]) or "  (empty)"


@contextlib.contextmanager
def _signals_ignored() -> Iterator[None]:
    """Ignore ending signals: a second Ctrl-C in the shutdown must not leave processes behind."""
    numbers = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)
    before: Mapping[int, object] = {n: signal.signal(n, signal.SIG_IGN) for n in numbers}
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)  # type: ignore[arg-type]  # what signal() gave back
