"""`koala-agent start`, `stop`, `status` and `doctor`, with real processes."""

from __future__ import annotations

import asyncio
import json
import os
import signal
import socket
import sys
from collections.abc import AsyncIterator
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from unittest import SkipTest

import psutil
import pytest

from koala.common.runtime.service.detached import find
from koala_agent.claims.store import LOCK_FILE
from koala_agent.lrm.batch_system import find_system
from tests.agent.live.agent_process import COMMAND, command, environment
from tests.agent.live.fake_daemon import fake_daemon
from tests.harness.moments import moment
from tests.harness.ports import free_port

pytestmark = [pytest.mark.live, pytest.mark.slow]


@dataclass
class Said:
    """A command that has ended."""

    status: int
    out: str
    err: str


class Site:
    """A configuration, and the commands of its agent."""

    def __init__(self, folder: Path) -> None:
        self.config = folder / "agent.toml"
        self.state_dir = folder / "state"
        self.write("127.0.0.1:1")

    def write(self, daemon: str, rest: str = "") -> None:
        self.config.write_text(
            f'[agent]\nplain = true\nsite = "delft"\ndaemon = "{daemon}"\nstate_dir = "state"\n'
            f'[accounts]\nmode = "anyone"\n[site]\nprocessors = 4\n{rest}',
            encoding="utf-8",
        )

    async def run(self, name: str, *words: str) -> Said:
        return Said(*await command(name, str(self.config), *words))

    async def check(self) -> dict[str, str]:
        """Answers what `doctor` says of each need; its status is 1 if one is not met."""
        said = await self.run("doctor")
        lines = [line.partition(": ") for line in said.out.splitlines()]
        assert said.status == (1 if "\nFAILED" in said.out else 0), said
        return {name: text for name, _, text in lines}


@pytest.fixture
async def site(tmp_path: Path) -> AsyncIterator[Site]:
    site = Site(tmp_path)
    yield site
    if (left := find(site.state_dir / LOCK_FILE)) is not None:
        with suppress(psutil.NoSuchProcess):
            left.kill()
            left.wait()


async def test_an_agent_starts_apart_from_its_terminal_and_stops(site: Site) -> None:
    async with fake_daemon() as daemon:
        site.write(daemon.target)
        async with asyncio.TaskGroup() as group:
            starting = group.create_task(site.run("start"))
            (await daemon.session()).welcome()
        said = starting.result()
        assert said.status == 0, said
        assert f"site delft, daemon {daemon.target}: registered" in said.out
        running = find(site.state_dir / LOCK_FILE)
        assert running is not None
        assert os.getsid(running.pid) == running.pid, "it has a session of its own"
        assert (site.state_dir / "agent.log").stat().st_mode & 0o777 == 0o600

        again = await site.run("start")
        assert (again.status, f"process {running.pid}" in again.out) == (0, True)
        assert "koala-agent stop" in again.out, "a changed file is not read by this"
        shown = await site.run("status", "--json")
        found = json.loads(shown.out)
        assert (found["pid"], found["status"]) == (running.pid, "registered")

        ended = await site.run("stop")
        assert (ended.status, "jobs run on" in ended.out) == (0, True)
        assert not running.is_running()
    shown = await site.run("status")
    assert (shown.status, "not running" in shown.out) == (1, True)
    assert (await site.run("stop")).status == 0


async def test_an_agent_without_its_daemon_runs_and_says_what_is_wrong(site: Site) -> None:
    said = await site.run("start")
    assert (said.status, "is not reached" in said.out) == (0, True), said
    assert "koala-agent doctor" in said.out
    shown = await site.run("status")
    assert (shown.status, "is not reached" in shown.out) == (0, True), shown


async def test_an_agent_that_ends_at_once_leaves_its_last_line_and_status(site: Site) -> None:
    site.state_dir.mkdir()
    (site.state_dir / "claims").mkdir(mode=0o700)
    (site.state_dir / "claims").chmod(0o777)
    said = await site.run("start")
    assert said.status == 2
    assert "has mode 0777" in said.err
    assert "status 2" in said.err


async def test_another_process_with_the_number_of_a_killed_agent_is_left_alone(site: Site) -> None:
    other = await asyncio.create_subprocess_exec(sys.executable, "-c", "input()", stdin=-1)
    try:
        site.state_dir.mkdir(mode=0o700)
        for name in ("agent.lock", "agent.pid"):
            (site.state_dir / name).write_text(f"{other.pid}\n")
        assert (await site.run("status")).status == 1
        assert "no agent" in (await site.run("stop")).out
        assert other.returncode is None
    finally:
        other.send_signal(signal.SIGKILL)
        await other.wait()


async def test_an_agent_on_another_login_node_is_named_with_its_host(site: Site) -> None:
    """Both see the same home; processes of the other one are none of this one."""
    if os.geteuid() != 0:
        raise SkipTest("a machine of another name needs root")
    words = (*COMMAND, str(site.config))
    apart = ("unshare", "--uts", "--pid", "--fork", "--kill-child", "--mount-proc", "sh", "-c")
    other = await asyncio.create_subprocess_exec(
        *apart, 'hostname login2; exec "$@"', "-", *words, env=environment(), stderr=-3
    )
    try:
        async with asyncio.timeout(60):
            while not (site.state_dir / "agent.status").exists():
                await moment()
        shown = await site.run("status")
        assert shown.status == 0
        assert "site delft: running (process 1 at login2)" in shown.out
        again = await site.run("start")
        assert again.status == 0, again
        assert "runs already (process 1 at login2)" in again.out
        assert f"at login2: koala-agent stop {site.config}" in again.out
        ended = await site.run("stop")
        assert (ended.status, "runs on another machine (process 1 at login2)" in ended.err) == (
            1,
            True,
        )
        beside = await command(str(site.config))
        assert "another agent runs with this state directory (pid 1 at login2)" in beside[2]
    finally:
        other.kill()
        await other.wait()
    async with asyncio.timeout(60):  # the kernel ends what is in the other's namespace later
        while (await site.run("status")).status == 0:
            await moment()


async def test_a_check_names_each_need_that_is_not_met(site: Site, tmp_path: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        site.write(
            f"127.0.0.1:{free_port()}",
            f'[starter]\nport = {port}\npython = "/bin/false"\n'
            f'[lrm]\nkind = "slurm"\nenvironment = {{ PATH = "{tmp_path}" }}\n',
        )
        site.config.write_text(site.config.read_text().replace("plain = true\n", ""))
        site.state_dir.mkdir()
        site.state_dir.chmod(0o777)
        found = await site.check()
    assert "mode 0777" in found["FAILED  state directory"]
    assert "sbatch, squeue" in found["FAILED  batch system"]
    assert "Python 3.6 or newer" in found["FAILED  interpreter"]
    assert f"port {port} is taken" in found["FAILED  ports"]
    assert "does the daemon run" in found["FAILED  daemon"]
    assert "koala site add delft" in found["FAILED  certificate"]


async def test_a_check_compares_the_agent_with_a_login_and_with_cron(
    site: Site, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its programs get what it was started with; cron has another PATH."""
    home = tmp_path / "home"
    home.mkdir()
    (home / ".bash_profile").write_text("export MODULEPATH=/m LANG=C.UTF-8; echo hello\n")
    for name, text in (("HOME", str(home)), ("SHELL", "/bin/bash"), ("LANG", "C")):
        monkeypatch.setenv(name, text)
    monkeypatch.setenv("PATH", f"{tmp_path}/bin:{os.environ['PATH']}")
    (tmp_path / "bin").mkdir()
    for name in find_system("oar").programs:
        (tmp_path / "bin" / name).write_text("#!/bin/sh\necho '{}'\n", encoding="utf-8")
        (tmp_path / "bin" / name).chmod(0o755)
    site.write("127.0.0.1:1", '[lrm]\nkind = "oar"\n')
    found = await site.check()
    assert "cron does not find oarsub (its PATH is /usr/bin:/bin)" in found["warning batch system"]
    assert found["warning environment"].startswith("this shell has no MODULEPATH, which a login")
    monkeypatch.setenv("MODULEPATH", "/m")
    assert (await site.check())["ok      environment"] == "programs have that of this shell"


SBATCH = """#!/bin/sh
case "$*" in *--test-only*) exit 0;; esac
cat > "$0.job"
(sh "$0.job" > /dev/null 2>&1 &)
echo 77
"""
"""Starts a job at once, as an idle cluster does; the other commands have nothing to tell."""


def fake_slurm(folder: Path) -> str:
    """Put the commands of Slurm into a folder; its table of the configuration."""
    folder.mkdir()
    for name in ("sbatch", "squeue", "scancel", "sinfo", "scontrol", "srun"):
        program = folder / name
        program.write_text(SBATCH if name == "sbatch" else "#!/bin/sh\n", encoding="utf-8")
        program.chmod(0o755)
    path = f"{folder}:/usr/bin:/bin"
    keys = 'kind = "slurm"\npoll_s = 0.2\ncommands_per_minute = 1200'
    return f'[lrm]\n{keys}\nenvironment = {{ PATH = "{path}" }}\n'


async def test_a_probe_job_calls_back_from_its_node(site: Site, tmp_path: Path) -> None:
    site.write("127.0.0.1:1", fake_slurm(tmp_path / "bin"))
    site.state_dir.mkdir(mode=0o700)
    said = await site.run("doctor", "--probe", "--json")
    checks = {one["check"]: one for one in json.loads(said.out)["checks"]}
    assert checks["account"]["text"] == "slurm would take a job of one processor"
    node = f"node {socket.gethostname()} reached 127.0.0.1 with Python {sys.version.split()[0]}"
    assert (checks["probe job"]["result"], checks["probe job"]["text"]) == ("ok", node)
    assert (said.status, checks["daemon"]["result"]) == (1, "failed")


async def test_an_agent_that_starts_says_what_it_waits_for(site: Site, tmp_path: Path) -> None:
    site.write("127.0.0.1:1", fake_slurm(tmp_path / "bin"))
    (tmp_path / "bin" / "squeue").write_text("#!/bin/sh\nexec sleep 60\n", encoding="utf-8")
    async with asyncio.TaskGroup() as group:
        starting = group.create_task(site.run("start"))
        while "waits for the first answers of its site (Sl" not in (await site.run("status")).out:
            await moment()
        running = find(site.state_dir / LOCK_FILE)
        assert running is not None
        running.kill()
    assert starting.result().status == 1


async def test_a_wrong_configuration_is_an_error_of_each_command(site: Site) -> None:
    site.write("nowhere")
    for name in ("start", "stop", "status", "doctor", "check"):
        said = await site.run(name)
        assert (said.status, "agent.daemon" in said.err) == (2, True)
