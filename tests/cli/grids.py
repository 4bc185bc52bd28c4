"""A small grid as `koala up` runs it, for tests that need a daemon and agents."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import IO

import psutil

from tests.cli.command import LIMIT_S, environment, koala_here
from tests.harness.children import program_of
from tests.harness.forked import Process, Surroundings, start

GRID = """
[parameters]
claiming_step_min_s = 0.2
hold_lease_s = 20.0
run_lease_s = 60.0
late_max_s = 10.0
kill_s = 1.0
pause_max_s = 1.0
[sites.delft]
site = { processors = 4, grace_s = 20.0 }
[sites.vu]
site = { processors = 4, grace_s = 20.0 }
"""


@dataclass(slots=True, kw_only=True)
class Up:
    """A running `koala up`, and `koala` on its grid."""

    process: Process
    address: str
    said: list[str] = field(default_factory=list)

    def koala(self, *words: str, stdin: bytes = b"") -> subprocess.CompletedProcess[str]:
        """One command against this grid's daemon."""
        return koala_here(*words, stdin=stdin, KOALA_ADDRESS=self.address)

    def submit(self, text: str, *words: str) -> str:
        """The id of a job that must be accepted."""
        run = self.koala("submit", "-", *words, stdin=text.encode())
        assert run.returncode == 0, run.stderr
        return run.stdout.strip()

    def said_state(self) -> str:
        """The folder with state and logs; it is said before the address, and read by a thread."""
        return self.wait_said("state and logs are in ")

    def wait_said(self, mark: str) -> str:
        """The rest of the line with this mark, which is said after the address."""
        while self.process.poll() is None:
            for line in tuple(self.said):
                if mark in line:
                    return line.split(mark)[1].strip()
            with suppress(subprocess.TimeoutExpired):
                self.process.wait(0.05)
        raise AssertionError(self.said)

    def children(self) -> list[psutil.Process]:
        """Every process of the grid, whatever session it is in."""
        root = psutil.Process(self.process.pid)
        return root.children(recursive=True)


@contextmanager
def up(folder: Path, text: str | None = GRID, *, has_page: bool = False) -> Iterator[Up]:
    """`koala up` on a grid file, or on its own grid; Ctrl-C ends it, if it still runs then."""
    path = folder / "grid.toml"
    if text is not None:
        path.write_text(text, encoding="utf-8")
    words = ["up", *([str(path)] if text is not None else []), "--any-port"]
    if not has_page:
        words.append("--no-web")
    out, error = Pipe(), Pipe()
    around = Surroundings(
        stdout=out.writer, stderr=error.writer, environment=environment(TMPDIR=str(folder))
    )
    process = start(program_of("koala.cli.main"), *words, around=around, by_exec=True)
    out.writer.close()
    error.writer.close()
    said: list[str] = []
    listener = threading.Thread(target=said.extend, args=(error.reader,))
    listener.start()
    limit = threading.Timer(LIMIT_S, process.terminate)
    limit.start()
    line = out.reader.readline().strip()
    limit.cancel()
    assert line.startswith("export KOALA_ADDRESS="), said
    try:
        yield Up(process=process, address=line.partition("=")[2], said=said)
    finally:
        is_interrupted = process.poll() is None
        if is_interrupted:
            process.send_signal(signal.SIGINT)
        process.wait(timeout=LIMIT_S)
        listener.join()
        out.reader.close()
        error.reader.close()
    if is_interrupted:
        assert process.returncode == 0, said


class Pipe:
    """A pipe: a process writes into one end, the other is read as text."""

    def __init__(self) -> None:
        reader, writer = os.pipe()
        self.reader: IO[str] = os.fdopen(reader, encoding="utf-8")
        self.writer: IO[bytes] = os.fdopen(writer, "wb")


@contextmanager
def daemon_process(config: Path) -> Iterator[subprocess.Popen[bytes]]:
    """A daemon without sites; it is killed with the block."""
    process = subprocess.Popen(
        [sys.executable, "-m", "koala.cli", "daemon", str(config)],
        env=environment(),
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
    )
    try:
        yield process
    finally:
        process.kill()
        process.wait(LIMIT_S)


def still_running(processes: list[psutil.Process]) -> list[psutil.Process]:
    """Those that have not ended; one of them may wait for the system to take note of its end."""
    found = []
    for process in processes:
        with suppress(psutil.NoSuchProcess):
            if process.is_running() and process.status() != psutil.STATUS_ZOMBIE:
                found.append(process)
    return found


def marked_with(text: str) -> list[psutil.Process]:
    """Processes in whose command line or folder the text stands."""
    found = []
    for process in psutil.process_iter():
        try:
            words = [*process.cmdline(), process.cwd()]
        except psutil.Error:
            continue
        if process.pid != os.getpid() and any(text in word for word in words):
            found.append(process)
    return found
