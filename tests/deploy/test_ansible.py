"""The Ansible role of deploy/ansible installs a daemon and an agent; a job runs on them.

Accounts and systemd units are left out: the services are started by the test.
"""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from tests.harness.ports import free_port
from tests.tidy.sources import ROOT

pytestmark = [pytest.mark.packages]

LIMIT_S = 600
ROLES = ROOT / "deploy" / "ansible" / "roles"
TOOLS = ROOT / "build" / "ansible"


def test_the_role_installs_a_daemon_and_an_agent_and_changes_nothing_twice(tmp_path: Path) -> None:
    address, package = f"127.0.0.1:{free_port()}", wheel(tmp_path)
    daemon = playbook(
        tmp_path,
        "daemon",
        package,
        {"daemon": {"listen": address, "state_dir": f"{tmp_path}/daemon/state"}},
    )
    agent = playbook(
        tmp_path,
        "agent",
        package,
        {
            "agent": {"site": "vu", "daemon": address, "state_dir": f"{tmp_path}/agent/state"},
            "site": {"processors": 2, "address": "127.0.0.1"},
            "lrm": {"kind": "emulated"},
        },
    )
    assert changes(daemon) > 0
    assert changes(daemon) == 0
    programs, settings = tmp_path / "prefix" / "bin", tmp_path / "etc"
    credentials = f"{tmp_path}/daemon/state/authority/administrator.toml"
    environment = {**os.environ, "KOALA_ADDRESS": address, "KOALA_CREDENTIALS": credentials}
    with service(programs / "koala", "daemon", settings / "daemon.toml"):
        wait_for_answer(programs, environment)
        assert changes(agent, environment) > 0
        assert changes(agent, environment) == 0
        with service(programs / "koala-agent", settings / "agent.toml"):
            run = subprocess.run(
                [programs / "koala", "run", "--sites", "1", "--", "echo", "ran"],
                env=environment,
                capture_output=True,
                text=True,
                timeout=LIMIT_S,
                check=False,
            )
    assert run.returncode == 0, run.stderr
    assert "ran" in run.stdout


def playbook(folder: Path, role: str, package: Path, config: dict[str, object]) -> Path:
    """Write a playbook for this machine that applies the role."""
    play = {
        "hosts": "localhost",
        "connection": "local",
        "gather_facts": False,
        "roles": ["koala"],
        "vars": {
            "koala_service": role,
            "koala_package": str(package),
            "koala_python": sys.executable,
            "koala_prefix": f"{folder}/prefix",
            "koala_config_dir": f"{folder}/etc",
            "koala_home": f"{folder}/{role}",
            "koala_account": str(os.geteuid()),
            "koala_makes_account": False,
            "koala_systemd": False,
            "koala_become": False,
            "koala_daemon_account": str(os.geteuid()),
            "koala_daemon_host": "localhost" if role == "agent" else "",
            "koala_config": config,
        },
    }
    path = folder / f"{role}.yml"
    path.write_text(json.dumps([play]), encoding="utf-8")  # JSON is YAML
    return path


def changes(path: Path, environment: dict[str, str] | None = None) -> int:
    """Run a playbook; return how many of its tasks changed something."""
    run = subprocess.run(
        [tools() / "ansible-playbook", "-i", "localhost,", path],
        env={
            **(environment or os.environ),
            "ANSIBLE_ROLES_PATH": str(ROLES),
            "ANSIBLE_NOCOLOR": "1",
            "ANSIBLE_HOME": str(path.parent / "ansible-home"),
            "ANSIBLE_PYTHON_INTERPRETER": sys.executable,
        },
        capture_output=True,
        text=True,
        timeout=LIMIT_S,
        check=False,
    )
    assert run.returncode == 0, run.stdout + run.stderr
    recap = re.search(r"changed=(\d+)", run.stdout)
    assert recap is not None, run.stdout
    return int(recap[1])


@contextmanager
def service(*argv: str | Path) -> Iterator[None]:
    """Run a service until the block ends, then stop it."""
    with subprocess.Popen(argv, stdin=subprocess.DEVNULL) as process:
        try:
            yield
        finally:
            process.terminate()
            process.wait(LIMIT_S)


def wait_for_answer(programs: Path, environment: dict[str, str]) -> None:
    """Ask until the daemon answers."""
    give_up_at = time.monotonic() + LIMIT_S
    words: list[str | Path] = [programs / "koala", "list"]
    while subprocess.run(words, env=environment, capture_output=True, check=False).returncode:
        assert time.monotonic() < give_up_at


def tools() -> Path:
    """Return the folder of Ansible's programs, in a virtual environment of their own."""
    programs = TOOLS / "bin"
    if not (programs / "ansible-playbook").exists():
        command([sys.executable, "-m", "venv", TOOLS])
        command([programs / "pip", "install", "-q", "ansible-core>=2.17,<2.20"])
    return programs


def wheel(folder: Path) -> Path:
    """Build the wheel of this tree."""
    command([sys.executable, "-m", "pip", "wheel", "-q", "--no-deps", "-w", folder, ROOT])
    return next(folder.glob("*.whl"))


def command(argv: list[str | Path]) -> None:
    """Run a command that must succeed."""
    run = subprocess.run(argv, capture_output=True, text=True, timeout=LIMIT_S, check=False)
    assert run.returncode == 0, run.stdout + run.stderr
