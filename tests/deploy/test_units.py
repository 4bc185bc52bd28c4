"""The units of deploy/systemd start what is there, and say what services and managers agree on."""

from __future__ import annotations

import os
import re
import shlex
import shutil
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest

from tests.tidy.sources import ROOT

UNITS = sorted(ROOT.joinpath("deploy", "systemd").rglob("*.service"))
PROGRAMS = re.compile(r"/opt/koala/bin|%h/\.local/share/koala/bin")
"""Where the units expect the programs of an installation."""

IMPLYING = (
    "NoNewPrivileges",
    "SystemCallFilter",
    "SystemCallArchitectures",
    "RestrictAddressFamilies",
    "RestrictNamespaces",
    "PrivateDevices",
    "ProtectKernelTunables",
    "ProtectKernelModules",
    "ProtectKernelLogs",
    "ProtectClock",
    "ProtectHostname",
    "MemoryDenyWriteExecute",
    "RestrictRealtime",
    "RestrictSUIDSGID",
    "DynamicUser",
    "LockPersonality",
    "SystemCallLog",
)
"""These imply NoNewPrivileges for a service with an account of its own (systemd.exec(5))."""


def settings(path: Path) -> dict[str, str]:
    """The last value of each key, `Section.Key`."""
    found, section = {}, ""
    for line in path.read_text(encoding="utf-8").splitlines():
        if line.startswith("["):
            section = line.strip("[]")
        elif line and not line.startswith("#"):
            key, is_pair, value = line.partition("=")
            assert is_pair, line
            found[f"{section}.{key}"] = value
    return found


def name_of(path: Path) -> str:
    return str(path.relative_to(ROOT / "deploy" / "systemd"))


@pytest.mark.parametrize("path", UNITS, ids=name_of)
def test_a_unit_starts_a_program_that_is_installed_and_waits_for_its_word(path: Path) -> None:
    found = settings(path)
    program = shlex.split(found["Service.ExecStart"])[0]
    scripts = tomllib.loads(ROOT.joinpath("pyproject.toml").read_text())["project"]["scripts"]
    assert PROGRAMS.fullmatch(str(Path(program).parent))
    assert Path(program).name in scripts
    assert found["Service.Type"] == "notify"
    assert int(found["Service.WatchdogSec"]) >= 10, "a busy machine must not end a service"
    assert found["Service.Restart"] == "always"
    assert found["Service.RestartPreventExitStatus"] == "2"
    assert found["Install.WantedBy"]


@pytest.mark.parametrize("path", UNITS, ids=name_of)
def test_jobs_outlive_the_service_that_started_them(path: Path) -> None:
    is_agent = "agent" in path.name
    assert settings(path)["Service.KillMode"] == ("process" if is_agent else "mixed")


def test_an_agent_that_becomes_others_by_sudo_is_not_kept_from_it() -> None:
    found = settings(ROOT / "deploy" / "systemd" / "koala-agent.service")
    assert [name for name in IMPLYING if f"Service.{name}" in found] == []


def analyze(path: Path, folder: Path) -> str:
    """Run systemd's check of a unit whose programs are those of this environment."""
    scripts = folder / "bin"
    scripts.mkdir()
    for name in ("koala", "koala-agent"):
        scripts.joinpath(name).symlink_to(sys.executable)
    unit = folder / path.name
    unit.write_text(PROGRAMS.sub(str(scripts), path.read_text(encoding="utf-8")), encoding="utf-8")
    whose = ["--user"] if path.parent.name == "user" else ["--system"]
    run = subprocess.run(
        ["systemd-analyze", *whose, "verify", str(unit)],
        env={**os.environ, "XDG_RUNTIME_DIR": str(folder)},
        capture_output=True,
        text=True,
        check=False,
    )
    return run.stdout + run.stderr + (f"status {run.returncode}" if run.returncode else "")


if shutil.which("systemd-analyze"):  # a machine without systemd has the tests above

    @pytest.mark.slow
    @pytest.mark.parametrize("path", UNITS, ids=name_of)
    def test_systemd_has_no_objection(path: Path, tmp_path: Path) -> None:
        assert analyze(path, tmp_path) == ""

    def test_systemd_objects_to_a_key_that_it_does_not_know(tmp_path: Path) -> None:
        unit = tmp_path / "koala-agent.service"
        unit.write_text(UNITS[0].read_text().replace("KillMode=", "KillMod="))
        assert "Unknown key 'KillMod'" in analyze(unit, tmp_path)
