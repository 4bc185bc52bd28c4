"""One batch system on this machine, as its users, its administrator and an agent see it."""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import tempfile
import time
from abc import ABC, abstractmethod
from collections.abc import Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager, suppress
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import ClassVar, Self

from koala_agent.lrm.dialect import Dialect

DEV = Path(__file__).parents[3] / "deploy" / "dev"
UP_S = 180.0
CLEAR_S = 90.0
GPUS = 4
"""Those of each system; a cluster has two nodes."""
BRISK = (
    "poll_s = 0.3",
    "commands_per_minute = 1200",
    "gate_probe = false",
)
WRAPPER = """#!/bin/sh
echo "$(date +%s.%N) {name} $*" >> {folder}/log
if [ {name} = sbatch ] && [ -e {folder}/refuses ]; then echo "no account" >&2; exit 1; fi
exec {real} "$@"
"""
RESOURCES = {"KOALA_DEV_FEATURES": "ib,rome", "KOALA_DEV_LICENSES": "matlab:3"}


@dataclass(frozen=True, kw_only=True)
class System(ABC):
    """One cluster, cell or pool: what its commands need, and how it is disturbed."""

    kind: ClassVar[str]
    site_gpus: ClassVar[int] = 0
    """GPUs that the agent's configuration must name, because the system does not list them."""

    command_limit_s: ClassVar[float] = 4.0
    """How long an agent waits for a command, which tests with a controller that stands still wait
    out."""

    name: str
    processors: int
    environment: dict[str, str]
    folder: Path
    login: dict[str, str] = field(default_factory=dict)
    """Variables that a user's shell has at the login node."""
    settings: tuple[str, ...] = BRISK
    """Lines of the agent's `[lrm]`."""
    shim: Path | None = None
    """Folder in front of the PATH of the agent's commands, in which they are counted."""

    def watched(self, folder: Path, *programs: str) -> Self:
        """Return this system with an agent of the default settings, whose commands are counted.
        It probes no gate, which would be in the way of tests."""
        folder.mkdir()
        path = self.environment.get("PATH", os.environ["PATH"])
        for name in programs:
            if (real := shutil.which(name, path=path)) is not None:
                text = WRAPPER.format(name=name, folder=folder, real=real)
                (folder / name).write_text(text)
                (folder / name).chmod(0o755)
        return replace(self, settings=("gate_probe = false",), shim=folder)

    def refuse(self, *, is_refusing: bool) -> None:
        """Let the watched `sbatch` refuse all, or not any more."""
        assert self.shim is not None
        mark = self.shim / "refuses"
        mark.touch() if is_refusing else mark.unlink()

    def calls(self) -> list[tuple[float, str]]:
        """Return the counted commands so far, with their words, and when they began."""
        assert self.shim is not None
        log = self.shim / "log"
        rows = log.read_text().splitlines() if log.exists() else []
        return [(float(at), words) for at, _, words in (row.partition(" ") for row in rows)]

    @property
    @abstractmethod
    def dialect(self) -> Dialect:
        """Its words."""

    def run(self, *argv: str, text: str = "") -> str:
        """One of its commands, as one of its users would run it."""
        done = subprocess.run(
            argv,
            input=text,
            env={**os.environ, **self.environment},
            capture_output=True,
            text=True,
            errors="replace",
            check=False,
            timeout=60,
        )
        assert done.returncode == 0, (argv, done.stderr, done.stdout)
        return done.stdout.strip()

    @abstractmethod
    def submit(self, script: str, *, processors: int = 1, name: str = "other") -> str:
        """A job of somebody else; its number."""

    @abstractmethod
    def numbers(self, name: str = "") -> list[str]:
        """Numbers of the jobs that have not ended and whose name begins like this."""

    @abstractmethod
    def cancel(self, *numbers: str) -> None:
        """Ends any jobs."""

    def bookings(self, name: str = "") -> list[str]:
        """Bookings whose name begins like this, where they are not jobs themselves."""
        return []

    def unbook(self, *bookings: str) -> None:
        """Gives back any bookings."""
        self.cancel(*bookings)

    @abstractmethod
    def suspend(self, number: str, *, is_over: bool = False) -> None:
        """Takes a job's processors away for a while, or gives them back."""

    @abstractmethod
    def drained(self) -> AbstractContextManager[None]:
        """Half of the nodes, or the queue, take no new jobs."""

    @abstractmethod
    def without_daemon_on(self, node: str) -> AbstractContextManager[None]:
        """SIGKILL for the daemon of a node; jobs are none of its children. It is started again."""

    def has_saved(self) -> bool:
        """True when the controller has written down all jobs that it has."""
        return True

    @abstractmethod
    def controller(self) -> int:
        """Process id of the daemon that has the queue."""

    def restart_controller(self) -> None:
        """SIGKILL, and another one with the state that it has saved."""
        os.kill(self.controller(), signal.SIGKILL)
        self.start_controller()

    @abstractmethod
    def start_controller(self) -> None:
        """Starts the controller that was killed."""

    @contextmanager
    def controller_away(self) -> Iterator[None]:
        """The controller stands still: its commands get no answer."""
        process = self.controller()
        os.kill(process, signal.SIGSTOP)
        try:
            yield
        finally:
            os.kill(process, signal.SIGCONT)

    def clear(self) -> None:
        """Everybody's jobs and bookings are ended; returns when none is left."""
        until = time.monotonic() + CLEAR_S
        for listed, end in ((self.numbers, self.cancel), (self.bookings, self.unbook)):
            while left := listed():
                assert time.monotonic() < until, left
                with suppress(AssertionError):  # one that ended meanwhile
                    end(*left)

    @abstractmethod
    def words_with(self, name: str, value: str) -> tuple[list[str], dict[str, str]]:
        """Lines of the agent's `[lrm]`, and more of its environment, with which every batch job has
        this variable."""

    def lrm_table(self, mark: str) -> str:
        """The agent's `[lrm]` for this system; `mark` is a variable of every batch job."""
        name, _, value = mark.partition("=")
        lines = [f'kind = "{self.kind}"', *self.settings]
        if self.settings:
            lines.append(f"command_limit_s = {self.command_limit_s}")
        more, variables = self.words_with(name, value)
        given = {**self.environment, **variables}
        if self.shim is not None:
            given["PATH"] = f"{self.shim}:{self.environment.get('PATH', '/usr/bin:/bin')}"
        pairs = ", ".join(f'{key} = "{text}"' for key, text in given.items())
        return "\n".join(["[lrm]", *lines, *more, f"environment = {{ {pairs} }}", ""])


@contextmanager
def brought_up(
    script: str,
    folder: Path,
    variables: Mapping[str, str],
    *,
    profile: str = "",
    hidden: Path | None = None,
    network: str = "",
) -> Iterator[None]:
    """As the `profile` makes it. With `hidden` in a mount namespace of its own, in
    which an empty folder lies over it; with the path of a `network` namespace in that one."""
    over = 'mount -t tmpfs none "$0" && exec "$@"'
    alone = [] if hidden is None else ["unshare", "--mount", "sh", "-c", over, str(hidden)]
    alone += entering(network)

    def call(verb: str, *words: str) -> None:
        subprocess.run(
            [*alone, DEV / script, verb, str(folder), *words],
            env={**os.environ, **variables},
            check=True,
            timeout=UP_S,
            stdout=subprocess.DEVNULL,
        )

    try:
        call("up", *(("--profile", profile) if profile else ()))
        yield
    finally:
        call("down")


@contextmanager
def open_folder() -> Iterator[Path]:
    """Make a folder that all accounts may enter, unlike those of pytest."""
    with tempfile.TemporaryDirectory(prefix="koala-open-", ignore_cleanup_errors=True) as name:
        folder = Path(name)
        folder.chmod(0o755)
        yield folder


def entering(network: str) -> list[str]:
    """Return the words before a command that is to run in this network namespace."""
    return ["nsenter", f"--net={network}"] if network else []


@contextmanager
def lonely_network(name: str) -> Iterator[str]:
    """The path of a network namespace that has a loopback device and no route. The device has
    another address, too: with 127.0.0.1 alone the C library resolves no address at all."""
    subprocess.run(["ip", "netns", "add", name], check=True)
    try:
        subprocess.run(["ip", "-n", name, "link", "set", "lo", "up"], check=True)
        address = ["addr", "add", "192.0.2.1/32", "dev", "lo"]
        subprocess.run(["ip", "-n", name, *address], check=True)
        yield f"/run/netns/{name}"
    finally:
        subprocess.run(["ip", "netns", "delete", name], check=True)


def sizes_in(text: str) -> Iterator[tuple[str, int]]:
    """Names and processors of "alpha:2x8 beta:2x16"."""
    for word in text.split():
        name, _, size = word.partition(":")
        nodes, _, processors = size.partition("x")
        yield name, int(nodes) * int(processors)


def settings_of(path: Path) -> dict[str, str]:
    """The variables that a shell's settings set."""

    def after(first: str) -> set[tuple[str, str]]:
        words = ["bash", "-c", f"{first}; env --null"]
        out = subprocess.run(words, capture_output=True, text=True, check=True).stdout
        pairs = (pair.partition("=") for pair in out.split("\0") if pair)
        return {(name, value) for name, _, value in pairs}

    return dict(after(f". {path}") - after(":"))
