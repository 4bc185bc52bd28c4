"""The sample site and the container file name what is there, and agree with one another."""

from __future__ import annotations

import json
import re
import tomllib
from pathlib import Path

from koala_agent.config import read_config
from koala_agent.lrm.batch.slurm import Slurm
from koala_agent.lrm.batch.slurm.gates import gates_of
from koala_agent.lrm.local_manager import Placeholder
from tests.tidy.sources import ROOT

SITE = ROOT / "deploy" / "site"
PROJECT = tomllib.loads(ROOT.joinpath("pyproject.toml").read_text(encoding="utf-8"))


def alias(kind: str, name: str) -> list[str]:
    """Return the commands behind an alias of the sudoers file."""
    text = (SITE / "sudoers").read_text(encoding="utf-8")
    (found,) = re.findall(rf"^{kind}\s+{name} = (.*)$", text, re.MULTILINE)
    return [word.strip() for word in found.split(",")]


def test_sudo_knows_the_accounts_of_the_map_and_no_others() -> None:
    accounts = read_config(SITE / "agent.toml").accounts
    assert accounts.mode == "site"
    assert accounts.become[0] == "sudo"
    assert alias("Runas_Alias", "KOALA_ACCOUNTS") == sorted(accounts.map.values())


def test_sudo_allows_the_commands_that_are_run_as_an_account_and_no_others() -> None:
    placeholder = Placeholder(
        claim="j1/1/0/1", processors=1, time_limit_s=60, argv=("true",), directory=Path("/w")
    )
    slurm = Slurm()
    commands = [
        slurm.submit(placeholder, name="n", script=""),
        slurm.ask(placeholder, name="n", script=""),
        slurm.list_jobs(),
        slurm.withdraw("1"),
        slurm.record("1"),
        *(
            order(["1"])
            for gate in gates_of("PriorityType = priority/basic", "n[1-2]")
            for order in (gate.shut, gate.open)
        ),
    ]
    run = {" ".join(command.argv) for command in commands if command is not None}
    allowed = alias("Cmnd_Alias", "KOALA_SUBMIT") + alias("Cmnd_Alias", "KOALA_LOOK")
    words = [line.removeprefix("/usr/bin/").removesuffix("*").strip() for line in allowed]
    assert all(any(command.startswith(start) for start in words) for command in run)
    assert all(any(command.startswith(start) for command in run) for start in words)


def test_the_image_is_built_of_what_is_there_and_starts_what_is_installed() -> None:
    """`test_container.py` builds the image; this test is quick."""
    lines = (ROOT / "deploy" / "Containerfile").read_text(encoding="utf-8").splitlines()
    copied = [
        source
        for line in lines
        if line.startswith("COPY ") and "--from" not in line
        for source in line.split()[1:-1]
    ]
    assert [source for source in copied if not (ROOT / source).exists()] == []
    build = PROJECT["tool"]["hatch"]["build"]["targets"]["wheel"]
    needed = [
        "pyproject.toml",
        PROJECT["project"]["readme"],
        *PROJECT["project"]["license-files"],
        *(package.split("/")[0] for package in build["packages"]),
        *{path.split("/")[0] for path in build["force-include"]},
        "CHANGELOG.md",
        "docs",  # the manual pages are made from them
    ]
    assert sorted(copied) == sorted(needed)
    (command,) = [line for line in lines if line.startswith("CMD ")]
    assert json.loads(command.removeprefix("CMD "))[0] in PROJECT["project"]["scripts"]
    python = min(int(minor) for minor in re.findall(r"python:3\.(\d+)", "\n".join(lines)))
    assert python >= 11
