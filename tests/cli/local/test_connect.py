"""`koala site connect` and `koala site login`, typed in front of a real ssh server.

The host's account is another one than that of the tests, where these are root. The batch system of
the agent that runs here is a script, since its commands are all that is looked at.
"""

from __future__ import annotations

import os
import shutil
import signal
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

import psutil
import pytest

from koala_agent.lrm.batch.slurm.nodes import NODE_COLUMNS
from tests.agent.transport.servers import a_server
from tests.cli.command import environment
from tests.cli.grids import marked_with
from tests.documents.pages import prepare, run_words
from tests.harness.ports import free_port
from tests.harness.ssh_server import HOST, SSHServer

pytestmark = [pytest.mark.live, pytest.mark.long]

NODE = ("n1", "batch*", "up", "0/6/0/6", "idle", "16000", "0", "1:6:1", *3 * ["(null)"])
ROW = "".join(text.ljust(width) for text, (_, width) in zip(NODE, NODE_COLUMNS, strict=True))
SINFO = f"""#!/bin/sh
case "$*" in *-N*) echo '{ROW}';; esac
"""


class Terminal:
    """A user's terminal beside a daemon of its own, with a home of its own."""

    def __init__(self, folder: Path, server: SSHServer) -> None:
        self.folder, self.server = folder, server
        self.bin_folder = prepare(folder)
        self.variables = environment(HOME=str(folder), XDG_CONFIG_HOME=str(folder / ".config"))
        self.variables["KOALA_RUNTIME_DIR"] = str(folder)
        self.variables["PATH"] = os.pathsep.join([str(self.bin_folder), self.variables["PATH"]])
        self.options = f"--ssh-option=-F --ssh-option={server.config}"

    def type(self, text: str, *, status: int = 0) -> str:
        """Run commands; return what they print."""
        run = run_words(["bash", "-euc", text], self.folder, self.variables)
        assert run.returncode == status, f"{text}\n{run.stdout}"
        return run.stdout

    def start_daemon(self) -> None:
        """Start a daemon on free ports of the loopback device."""
        self.type("koala init daemon")
        config = self.folder / "daemon.toml"
        text = config.read_text(encoding="utf-8").replace("0.0.0.0", "127.0.0.1")
        for number in (7740, 7741, 7742):
            text = text.replace(str(number), str(free_port()))
        config.write_text(text, encoding="utf-8")
        self.type("koala daemon start daemon.toml")

    @property
    def record(self) -> Path:
        """Path of the record of the site."""
        return self.folder / ".config" / "koala" / "sites" / f"{HOST}.json"

    @property
    def config(self) -> Path:
        """Path of the file of the agent that runs here."""
        return self.record.with_suffix(".toml")


@pytest.fixture
def terminal(tmp_path: Path) -> Iterator[Terminal]:
    with a_server() as server, a_terminal(tmp_path, server) as terminal:
        yield terminal


@contextmanager
def a_terminal(folder: Path, server: SSHServer) -> Iterator[Terminal]:
    """A terminal beside a running daemon; at the end nothing of both is left."""
    terminal = Terminal(folder, server)
    try:
        terminal.start_daemon()
        yield terminal
    finally:
        for process in [*marked_with(str(folder)), *at_home(server)]:
            with suppress(psutil.NoSuchProcess):
                process.send_signal(signal.SIGTERM)
                process.wait(60)


def at_home(server: SSHServer) -> list[psutil.Process]:
    """The host's processes that outlive their connection."""
    found = []
    for process in psutil.process_iter():
        with suppress(psutil.Error):
            if process.environ().get("HOME") == str(server.home) and server.is_other:
                found.append(process)
    return [one for one in found if "koala_agent" in " ".join(one.cmdline())]


def fake_slurm(server: SSHServer) -> None:
    """Put commands of a batch system into the PATH of the host's login shell."""
    folder = tools(server, "getconf", "hostname", "python3", "timeout", "true")
    for name in ("sbatch", "squeue", "scancel", "sinfo", "scontrol", "srun"):
        (folder / name).write_text(SINFO, encoding="utf-8")
        (folder / name).chmod(0o755)


def tools(server: SSHServer, *names: str) -> Path:
    """Give the host's login shell these commands alone; return their folder."""
    folder = server.home / "my tools"
    folder.mkdir()
    for name in names:
        found = shutil.which(name, path="/usr/bin:/bin")
        assert found, name
        (folder / name).symlink_to(found)
    profile = f'echo Welcome to atlas\nPATH="{folder}"\nexport SLURM_CONF="/a b"\n'
    (server.home / ".profile").write_text(profile, encoding="utf-8")
    return folder


def test_an_agent_here_is_written_joined_and_started_and_nothing_there(
    terminal: Terminal,
) -> None:
    fake_slurm(terminal.server)
    before = sorted(terminal.server.home.rglob("*"))
    connect = f"koala site connect {HOST} {terminal.options}"
    shown = terminal.type(f"{connect} --dry-run")
    assert "ok      batch system: slurm: " in shown
    assert "processors = 6  # all that Slurm has\n" in shown
    assert not terminal.config.exists()
    assert "atlas" not in terminal.type("koala site list")
    assert "give --yes" in terminal.type(f"{connect} < /dev/null", status=2)
    first = terminal.type(f"{connect} --yes")
    assert "atlas has joined" in first
    assert "registered" in first
    text = terminal.config.read_text(encoding="utf-8")
    assert f'PATH = "{terminal.server.home}/my tools"' in text
    assert 'SLURM_CONF = "/a b"' in text
    assert "atlas" in terminal.type("koala site list")
    again = terminal.type(f"{connect} --yes")
    assert "has joined" not in again, "once is enough"
    assert "runs already" in again
    assert sorted(terminal.server.home.rglob("*")) == before


def test_an_agent_there_is_installed_joined_started_and_runs_a_job(terminal: Terminal) -> None:
    """The host has no batch system, and so gets a queue of its own."""
    tools(terminal.server, "getconf", "hostname", "python3")
    allow_the_index(terminal.server)
    connect = f"koala site connect {HOST} --agent there --processors 2 {terminal.options}"
    shown = terminal.type(f"{connect} --dry-run")
    assert "batch system: none: the agent gets a queue of its own" in shown
    assert not (terminal.server.home / ".config" / "koala").exists()
    assert "registered" in terminal.type(f"{connect} --yes")
    assert "runs already" in terminal.type(f"{connect} --yes")
    said = terminal.type(
        "koala run --site atlas -- /bin/sh -c 'echo $(/usr/bin/id -un) $KOALA_SITE'"
    )
    assert f"{terminal.server.account} atlas" in said


def allow_the_index(server: SSHServer) -> None:
    """Let pip there find what it finds here."""
    for name in (".config/pip/pip.conf", ".pip/pip.conf"):
        if (Path.home() / name).exists() and not (server.home / name).exists():
            (server.home / name).parent.mkdir(parents=True)
            shutil.copy(Path.home() / name, server.home / name)
    if server.is_other:
        for path in (server.home / ".config", server.home / ".config" / "pip"):
            shutil.chown(path, server.account)


def test_what_is_missing_is_told_and_nothing_is_done(terminal: Terminal) -> None:
    tools(terminal.server, "getconf", "hostname", "python3")
    told = terminal.type(f"koala site connect {HOST} --yes {terminal.options}", status=2)
    assert "FAILED  batch system: none of condor_submit, oarsub, qsub, sbatch is" in told
    assert "missing: batch system" in told
    assert not terminal.record.parent.exists()
