"""Processes in the background, which outlive the terminal of the command that starts them.

Such a process locks a file of its state directory, which has its process id and host. That counts
only while the process has the file open, so that no other one is ever taken for it; or, on another
host, while the file is locked. It reports to the command that starts it as to a service manager.
"""

from __future__ import annotations

import os
import socket
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path

import psutil

from koala.common.runtime import clock
from koala.common.runtime.sqlite_store import is_locked, lock_holder
from koala.errors import ConfigError

START_S = 120.0
"""Longest wait for the first report of a process, as in the units for systemd."""
STOP_S = 30.0
LOOK_S = 0.1
"""Period at which a starting process is looked at: its end sends no notice."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Holder:
    """Process that has a state directory. `process` is None on another machine, which sees the same
    folder: login nodes of a cluster often share the home directories."""

    pid: int
    host: str
    process: psutil.Process | None

    @property
    def words(self) -> str:
        """Name it for people."""
        return f"process {self.pid} at {self.host}" if self.host else f"process {self.pid}"

    @property
    def since(self) -> str:
        """When it was started; empty where that is not known."""
        if self.process is not None:
            with suppress(psutil.NoSuchProcess):
                started = datetime.fromtimestamp(self.process.create_time(), UTC)
                return f"{started:%Y-%m-%d %H:%M:%S} UTC"
        return ""

    def at_its_host(self, command: str) -> str:
        """Return a command that is about it, and where to type it."""
        return (
            command if self.process is not None or not self.host else f"at {self.host}: {command}"
        )

    def stop(self) -> bool:
        """End it in order; False when it has not ended in time."""
        assert self.process is not None
        with suppress(psutil.NoSuchProcess):
            self.process.terminate()
            try:
                self.process.wait(STOP_S)
            except psutil.TimeoutExpired:
                return False
        return True


def holder(lock: Path) -> Holder | None:
    """Return the process that has a lock, on this machine or another one."""
    pid, host = lock_holder(lock)
    process = find(lock)
    if process is not None or (pid and is_locked(lock)):
        return Holder(pid=pid, host=host, process=process)
    return None


def find(lock: Path) -> psutil.Process | None:
    """Return the process of this machine that has a lock."""
    pid, _host = lock_holder(lock)
    try:
        process = psutil.Process(pid)
        files = process.open_files()
    except psutil.Error:
        return None
    return process if any(file.path == str(lock.resolve()) for file in files) else None


@dataclass(frozen=True, slots=True, kw_only=True)
class Started:
    """Process that was started: what it reported, or its exit status and its last line."""

    pid: int
    report: str = ""
    status: int | None = None
    last_line: str = ""


def start(argv: Sequence[str], log: Path) -> Started:
    """Start a process apart from this terminal, and wait for its first report. Raises ConfigError
    and OSError."""
    with tempfile.TemporaryDirectory(prefix="koala-") as folder, _notices(folder) as notices:
        offset, process = _spawn(argv, log, notices.getsockname())
        try:
            report = _first_report(notices, process)
        except KeyboardInterrupt:
            report = "it goes on by itself"
    if process.returncode is None:
        return Started(pid=process.pid, report=report)
    status = process.returncode if process.returncode > 0 else 1
    return Started(pid=process.pid, status=status, last_line=_last_line(log, offset))


def _notices(folder: str) -> socket.socket:
    """Open the socket at which the process reports as to a service manager."""
    notices = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
    try:
        notices.bind(f"{folder}/notify")
    except OSError as error:
        notices.close()
        raise ConfigError(
            f"TMPDIR = {folder!r}: cannot make a socket there: {error} (expected a folder with a"
            " short name)"
        ) from error
    notices.settimeout(LOOK_S)
    return notices


def _spawn(argv: Sequence[str], log: Path, address: str) -> tuple[int, subprocess.Popen[bytes]]:
    """Start the process; return where its part of the log begins, too."""
    log.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    flags = os.O_WRONLY | os.O_APPEND | os.O_CREAT | os.O_NOFOLLOW | os.O_CLOEXEC
    descriptor = os.open(log, flags, 0o600)
    try:
        os.fchmod(descriptor, 0o600)
        offset = os.fstat(descriptor).st_size
        process = subprocess.Popen(
            [sys.executable, *argv],
            stdin=subprocess.DEVNULL,
            stdout=descriptor,
            stderr=descriptor,
            env={**os.environ, "NOTIFY_SOCKET": address},
            cwd="/",  # it keeps no file system busy
            start_new_session=True,
        )
        return offset, process
    finally:
        os.close(descriptor)


def _first_report(notices: socket.socket, process: subprocess.Popen[bytes]) -> str:
    """Wait until the process is ready or has ended, and return its report."""
    end = clock.now() + START_S
    while process.poll() is None and clock.now() < end:
        try:
            lines = notices.recv(65536).decode(errors="replace").splitlines()
        except TimeoutError:
            continue
        if "READY=1" in lines:
            return lines[-1].removeprefix("STATUS=")
    return f"no report came within {START_S:g} s"


def _last_line(log: Path, offset: int) -> str:
    with log.open("rb") as file:
        file.seek(offset)
        lines = file.read().decode(errors="replace").split("\n")
    return next((line for line in reversed(lines) if line.strip()), "It printed nothing.")
