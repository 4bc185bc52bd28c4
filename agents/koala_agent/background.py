"""`koala-agent start`, `stop` and `status`: an agent that runs in the background.

For machines without `systemctl --user`. The lock file of the state directory has the agent's
process id and host. It counts only while that process has the file open, so that no other process
is ever taken for the agent; or, on another host, while the file is locked.
"""

from __future__ import annotations

import json
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
from koala_agent.claims.store import LOCK_FILE
from koala_agent.config import read_config, read_configs
from koala_agent.config_tables import Config
from koala_agent.state_folder import LOG_FILE, REGISTERED, STATUS_FILE

START_S = 120.0
"""Longest wait for the first attempt to register, as in the unit for systemd."""
STOP_S = 30.0
LOOK_S = 0.1
"""Period at which a starting agent is looked at: its end sends no notice."""
PROGRAM = ("-P", "-m", "koala_agent")


def start(paths: Sequence[Path]) -> int:
    """Start the agent of these configurations, and print what became of it."""
    configs = read_configs(paths)
    if (already := _running_already(paths, configs)) is not None:
        return already
    log = Path(configs[0].agent.state_dir) / LOG_FILE
    with tempfile.TemporaryDirectory(prefix="koala-") as folder, _notices(folder) as notices:
        offset, process = _spawn(paths, log, notices.getsockname())
        try:
            status = _first_status(notices, process)
        except KeyboardInterrupt:
            status = "it goes on by itself"
    if process.returncode is not None:
        output = _last_line(log, offset)
        sys.stderr.write(
            f"{output}\nThe agent ended with status {process.returncode}; log: {log}\n"
        )
        return process.returncode if process.returncode > 0 else 1
    print(f"started (process {process.pid}), {status}")
    print(f"log: {log}")
    if not status.endswith(f": {REGISTERED}"):
        for path, config in zip(paths, configs, strict=True):
            found = _status(config)
            if not found["registered"]:
                goes_on = "tries again by itself" if found["running"] else "is not served"
                print(
                    f"Site {config.agent.site} {goes_on}. `koala-agent doctor {path}` looks for the"
                    " cause."
                )
    return 0


def _running_already(paths: Sequence[Path], configs: Sequence[Config]) -> int | None:
    """Print which of the sites have an agent; return the exit status, None when there is none."""
    stops: dict[str, str] = {}  # one for each process
    count = 0
    for path, config in zip(paths, configs, strict=True):
        running = holder(Path(config.agent.state_dir))
        if running is not None:
            print(f"the agent of site {config.agent.site} runs already ({running.words})")
            stops.setdefault(running.words, running.command("stop", path))
            count += 1
    if not count:
        return None
    words = " ".join(map(str, paths))
    purpose = "To apply changes" if count == len(paths) else "Nothing was started. To start all"
    print(f"{purpose}: {', '.join(stops.values())}, then koala-agent start {words}")
    return 0 if count == len(paths) else 1


def stop(path: Path) -> int:
    """End the agent of this configuration in order."""
    config = read_config(path)
    running = holder(Path(config.agent.state_dir))
    if running is None:
        print(f"no agent of site {config.agent.site} runs here")
        return 0
    if running.process is None:
        sys.stderr.write(
            f"koala-agent: the agent of site {config.agent.site} runs on another machine"
            f" ({running.words}): {running.command('stop', path)}\n"
        )
        return 1
    with suppress(psutil.NoSuchProcess):
        running.process.terminate()
        try:
            running.process.wait(STOP_S)
        except psutil.TimeoutExpired:
            sys.stderr.write(
                f"koala-agent: {running.words} has not ended in {STOP_S:g} s; its log:"
                f" {Path(config.agent.state_dir) / LOG_FILE}\n"
            )
            return 1
    print(f"the agent of site {config.agent.site} has ended ({running.words}); jobs run on")
    return 0


def status(path: Path, *, as_json: bool) -> int:
    """Print whether the agent runs, and whether its site is registered."""
    config = read_config(path)
    found = _status(config)
    if as_json:
        print(json.dumps(found, indent=2))
    elif found["running"]:
        since = f", since {found['since']}" if found["since"] else ""
        print(f"site {found['site']}: running (process {found['pid']} at {found['host']}{since})")
        print(f"daemon {found['daemon']}: {found['status']}")
    else:
        print(f"site {found['site']}: not running; start it with: koala-agent start {path}")
    return 0 if found["running"] else 1


@dataclass(frozen=True, slots=True, kw_only=True)
class Holder:
    """Agent that has a state directory. `process` is None on another machine, which sees the same
    folder: login nodes of a cluster often share the home directories."""

    pid: int
    host: str
    process: psutil.Process | None

    @property
    def words(self) -> str:
        """Name it for people."""
        return f"process {self.pid} at {self.host}" if self.host else f"process {self.pid}"

    def command(self, verb: str, path: Path) -> str:
        """Return the command that is about it, wherever it runs."""
        words = f"koala-agent {verb} {path}"
        return words if self.process is not None or not self.host else f"at {self.host}: {words}"


def holder(state_dir: Path) -> Holder | None:
    """Return the agent that has this state directory, on this machine or another one."""
    lock = state_dir / LOCK_FILE
    pid, host = lock_holder(lock)
    process = find(state_dir)
    if process is not None or (pid and is_locked(lock)):
        return Holder(pid=pid, host=host, process=process)
    return None


def find(state_dir: Path) -> psutil.Process | None:
    """Return the agent that has this state directory on this machine."""
    lock = state_dir / LOCK_FILE
    pid, _host = lock_holder(lock)
    try:
        process = psutil.Process(pid)
        files = process.open_files()
    except psutil.Error:
        return None
    return process if any(file.path == str(lock.resolve()) for file in files) else None


def _status(config: Config) -> dict[str, object]:
    state_dir = Path(config.agent.state_dir)
    running = holder(state_dir)
    text, since = "", None
    if running is not None:
        if running.process is not None:
            with suppress(psutil.NoSuchProcess):
                started = datetime.fromtimestamp(running.process.create_time(), UTC)
                since = f"{started:%Y-%m-%d %H:%M:%S} UTC"
        text = "it has not yet tried to register"
        with suppress(OSError):
            text = (state_dir / STATUS_FILE).read_text(encoding="utf-8") or text
    return {
        "site": config.agent.site,
        "daemon": config.agent.daemon,
        "state_dir": str(state_dir),
        "running": running is not None,
        "pid": None if running is None else running.pid,
        "host": None if running is None else running.host,
        "since": since,
        "registered": text == REGISTERED,
        "status": text,
    }


def _notices(folder: str) -> socket.socket:
    """Open the socket at which the agent reports as to a service manager."""
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


def _spawn(paths: Sequence[Path], log: Path, address: str) -> tuple[int, subprocess.Popen[bytes]]:
    """Start the agent apart from this terminal; return where its part of the log begins, too."""
    log.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    flags = os.O_WRONLY | os.O_APPEND | os.O_CREAT | os.O_NOFOLLOW | os.O_CLOEXEC
    descriptor = os.open(log, flags, 0o600)
    try:
        os.fchmod(descriptor, 0o600)
        offset = os.fstat(descriptor).st_size
        process = subprocess.Popen(
            [sys.executable, *PROGRAM, *(str(path.resolve()) for path in paths)],
            stdin=subprocess.DEVNULL,
            stdout=descriptor,
            stderr=descriptor,
            env={**os.environ, "NOTIFY_SOCKET": address},
            cwd="/",  # the agent keeps no file system busy
            start_new_session=True,
        )
        return offset, process
    finally:
        os.close(descriptor)


def _first_status(notices: socket.socket, process: subprocess.Popen[bytes]) -> str:
    """Wait until the agent is ready or has ended, and return its status line."""
    end = clock.now() + START_S
    while process.poll() is None and clock.now() < end:
        try:
            lines = notices.recv(65536).decode(errors="replace").splitlines()
        except TimeoutError:
            continue
        if "READY=1" in lines:
            return lines[-1].removeprefix("STATUS=")
    return f"no attempt to register was over within {START_S:g} s"


def _last_line(log: Path, offset: int) -> str:
    with log.open("rb") as file:
        file.seek(offset)
        lines = file.read().decode(errors="replace").split("\n")
    return next((line for line in reversed(lines) if line.strip()), "It printed nothing.")
