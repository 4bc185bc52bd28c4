"""`koala-agent doctor` of a site behind ssh: each need is looked at where it must be met."""

from __future__ import annotations

import asyncio
import json
import os
import subprocess
from collections.abc import Iterator

import pytest

from koala_agent.doctor import is_open_to_all
from tests.agent.live.agent_process import COMMAND, environment
from tests.agent.transport.servers import a_server, a_settings, close
from tests.harness.ssh_server import HOST, SSHServer

pytestmark = [pytest.mark.live, pytest.mark.long]


@pytest.fixture
def server() -> Iterator[SSHServer]:
    with a_server(settings="GatewayPorts clientspecified") as server:
        yield server
        close(a_settings(server))


def doctor(server: SSHServer, *, environment_: str = "") -> dict[str, tuple[str, str]]:
    """The findings by need: result and text."""
    config = server.folder / "agent.toml"
    words = ", ".join(f'"{word}"' for word in server.options)
    config.write_text(
        f'[agent]\nplain = true\nsite = "{HOST}"\ndaemon = "127.0.0.1:1"\n'
        f'state_dir = "{server.folder}/state"\n[accounts]\nmode = "anyone"\n'
        f'[site]\nprocessors = 4\n[lrm]\nkind = "slurm"\n{environment_}\n'
        f'[starter]\npython = "/usr/bin/python3"\n'
        f'[transport]\nkind = "ssh"\nhost = "{HOST}"\noptions = [{words}]\n',
        encoding="utf-8",
    )
    run = subprocess.run(
        [*COMMAND, "doctor", str(config), "--json"],
        env={**os.environ, **environment()},
        capture_output=True,
        text=True,
        check=False,
        timeout=300,
    )
    assert run.stdout, run.stderr
    found = json.loads(run.stdout)["checks"]
    return {one["check"]: (one["result"], one["text"]) for one in found}


async def test_needs_are_looked_at_on_the_login_node(server: SSHServer) -> None:
    found = await asyncio.to_thread(
        doctor, server, environment_='environment = { PATH = "/opt/no-slurm/bin" }'
    )
    assert found["login node"][0] == "ok", found
    assert found["login node"][1].startswith("atlas answers; starters dial ")
    assert found["interpreter"][1].startswith("/usr/bin/python3 is Python 3.")
    result, text = found["batch system"]
    assert result == "failed", found
    assert text.startswith("sbatch, squeue, scancel, sinfo, scontrol, srun not found in PATH = ")
    assert "'/opt/no-slurm/bin' of atlas: name the folder in lrm.environment" in text
    assert not list(server.home.iterdir())  # nothing is left of the trial


async def test_a_host_that_needs_a_person_is_told_at_each_need(server: SSHServer) -> None:
    (server.folder / "authorized").write_text("")
    found = await asyncio.to_thread(doctor, server)
    for need in ("login node", "batch system", "interpreter"):
        result, text = found[need]
        assert result == "failed", found
        assert text.startswith("ssh to atlas needs you: koala site login atlas"), found


@pytest.mark.parametrize(
    ("address", "is_open"),
    [("00000000", True), ("0100007F", False), ("0" * 32, True), ("0" * 24 + "01000000", False)],
)
def test_a_port_of_the_loopback_device_is_not_open_to_all(address: str, is_open: bool) -> None:
    row = f"   0: {address}:9C49 00000000:0000 0A 00000000:00000000 00:00000000 00000000\n"
    table = f"  sl  local_address rem_address   st tx_queue rx_queue\n{row}"
    assert is_open_to_all(table, 0x9C49) is is_open
    assert not is_open_to_all(table, 0x9C4A)
    assert not is_open_to_all(table.replace(" 0A ", " 01 "), 0x9C49)


@pytest.mark.parametrize(
    ("files", "result", "words"),
    [
        ({}, "ok", "programs have that of a login at atlas"),
        ({".bashrc": "echo Welcome"}, "warning", "files at atlas write 'Welcome' before each"),
        ({".bash_profile": "exec cat"}, "warning", "starts another program before any command"),
        ({".bashrc": "exec cat"}, "failed", "the login shell at atlas runs no command"),
    ],
)
async def test_start_up_files_of_an_account_are_told(
    files: dict[str, str], result: str, words: str
) -> None:
    with a_server(shell="/bin/bash") as server:
        for name, text in files.items():
            (server.home / name).write_text(f"{text}\n", encoding="utf-8")
        found = await asyncio.to_thread(doctor, server)
        close(a_settings(server))
    assert found["environment"][0] == result, found
    assert words in found["environment"][1]
