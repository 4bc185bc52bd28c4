"""`koala site connect --agent there` for a host with a network of its own, which leads nowhere.

The daemon listens on its own machine alone: its ports are there through the tunnel or not at all.
The host's Python is too old, and `uv`, a real one, finds another. It has no network to fetch one
from, so that one is there already.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import zipfile
from pathlib import Path

import pytest

from tests.agent.transport.servers import a_server
from tests.cli.local.test_connect import Terminal, a_terminal, tools
from tests.harness.ssh_server import HOST, SSHServer

pytestmark = [
    pytest.mark.live,
    pytest.mark.long,
    pytest.mark.root,
]

ROOT = Path(__file__).parents[3]
PYTHON = "/usr/bin/python3"
RUNNING = "echo $KOALA_SITE goes on; /usr/bin/mkfifo over; /bin/cat over; echo still"


def an_old_host(server: SSHServer, wheels: Path) -> None:
    """Give the host a Python 3.9 in name, uv, and a Python that only uv knows."""
    folder = tools(server, "getconf", "hostname")
    old = folder / "python3"
    old.write_text("#!/bin/sh\necho 3 9\n", encoding="utf-8")
    old.chmod(0o755)
    with zipfile.ZipFile(next(wheels.glob("uv-*.whl"))) as packed:
        name = next(name for name in packed.namelist() if name.endswith("/scripts/uv"))
        (folder / "uv").write_bytes(packed.read(name))
    (folder / "uv").chmod(0o755)
    version = subprocess.run([PYTHON, "-V"], capture_output=True, text=True, check=True).stdout
    number, minor = version.split()[1], ".".join(version.split()[1].split(".")[:2])
    known = server.home / ".local/share/uv/python" / f"cpython-{number}-linux-x86_64-gnu" / "bin"
    known.mkdir(parents=True)
    (known / f"python{minor}").symlink_to(os.path.realpath(PYTHON))
    config = server.home / ".config/uv"
    config.mkdir(parents=True)
    text = f'no-index = true\nfind-links = ["{wheels}"]\npython-downloads = "never"\n'
    (config / "uv.toml").write_text(text, encoding="utf-8")
    for path in (server.home / ".local", server.home / ".config"):
        for one in (path, *path.rglob("*")):
            shutil.chown(one, server.account)


def fetch_wheels(folder: Path) -> None:
    """Fetch what an installation needs, and uv."""
    pip = [sys.executable, "-m", "pip"]
    subprocess.run([*pip, "download", "-q", "-d", str(folder), "uv", str(ROOT)], check=True)
    for path in folder.glob("koala*"):
        path.unlink()


def test_the_daemons_ports_are_led_there_and_are_led_again_after_a_loss(tmp_path: Path) -> None:
    with a_server(is_apart=True) as server:
        wheels = server.folder / "wheels"
        wheels.mkdir()
        fetch_wheels(wheels)
        an_old_host(server, wheels)
        with a_terminal(tmp_path, server) as terminal:
            _connect_and_lose(terminal)


def _connect_and_lose(terminal: Terminal) -> None:
    connect = f"koala site connect {HOST} --agent there --processors 2 {terminal.options} --yes"
    told = terminal.type(connect)
    assert "interpreter: none from Python 3.11 on: uv fetches one" in told
    assert "registered" in told
    home = terminal.server.home
    running = terminal.type(f"koala submit - <<'END'\n{_job(home)}END").split()[0]
    terminal.type(f"until [ -e '{home}/over' ]; do :; done")

    terminal.lose_connection()
    terminal.type("until koala site | grep atlas | grep -v usable; do :; done")
    terminal.config.write_text("of an agent that ran here before", encoding="utf-8")
    told = terminal.type(f"koala site login {HOST}")
    assert "ssh to atlas is open, with ports " in told
    assert terminal.type(f"koala site login {HOST}").startswith("ssh to atlas is open already")
    terminal.type("until koala site | grep atlas | grep usable; do :; done")
    (home / "over").write_text("", encoding="utf-8")
    terminal.type(f"koala wait {running}")
    assert "atlas goes on\nstill" in terminal.type(f"koala logs {running}")
    assert "runs already" in terminal.type(connect), "nothing is led or installed twice"


def _job(home: Path) -> str:
    command = f"cd '{home}'; {RUNNING}"
    return f'executable: /bin/sh\narguments: ["-c", "{command}"]\nsite: atlas\nprocessors: 1\n'
