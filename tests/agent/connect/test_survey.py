"""Survey of a host: what its script says in a login shell, and how that is read."""

from __future__ import annotations

import os
import shutil
import subprocess
from dataclasses import replace
from pathlib import Path

import pytest

from koala_agent.connect.survey import MARK, Survey, read_survey, survey_command
from koala_agent.lrm.batch_system import find_system
from koala_agent.transport.interface import Answer
from koala_agent.transport.ssh_words import remote_line

SAID = f"""\
Welcome to atlas
{MARK} name atlas.example.org
{MARK} home /home/ann
{MARK} path /opt/slurm/bin:/usr/bin
{MARK} processors 16
{MARK} command sbatch /opt/slurm/bin/sbatch
{MARK} command qsub /opt/slurm/bin/qsub
{MARK} python 3 9 /usr/bin/python3
{MARK} python 3 12 /opt/python 3.12/bin/python3.12
{MARK} python Traceback: broken
{MARK} variable SLURM_CONF /etc/a b.conf
{MARK} answer gridengine environment mpi
{MARK} end
"""


def test_the_lines_of_a_profile_are_skipped_and_the_best_interpreter_comes_first() -> None:
    found = read_survey(Answer(status=0, out=SAID, err=""))
    assert found is not None
    assert (found.name, found.home, found.processors) == ("atlas.example.org", "/home/ann", 16)
    assert found.python((3, 11)) == "/opt/python 3.12/bin/python3.12"
    assert found.python((3, 13)) == ""
    assert found.pythons[-1] == ((3, 9), "/usr/bin/python3")
    assert found.variables == {"SLURM_CONF": "/etc/a b.conf"}
    assert found.system is not None
    assert found.system.kind == "slurm", "and not Grid Engine, whose qsub Slurm brings, too"


def surveyed(environment: dict[str, str]) -> Survey:
    """The survey of this machine, as the server of a host would run it."""
    command = survey_command()
    run = subprocess.run(
        ["/bin/sh", "-c", remote_line(command, environment={}, limit_s=60)],
        input=command.stdin,
        env=environment,
        capture_output=True,
        text=True,
        check=False,
        timeout=60,
    )
    found = read_survey(Answer(status=run.returncode, out=run.stdout, err=run.stderr))
    assert found is not None, run
    return found


def test_the_script_finds_what_the_login_shell_has(tmp_path: Path) -> None:
    """The host has one interpreter, that says 3.9, and commands in a folder with a blank."""
    folder = tmp_path / "my tools"
    folder.mkdir()
    for name in ("getconf", "hostname", "sh"):
        found = shutil.which(name)
        assert found
        (folder / name).symlink_to(found)
    for name, text in (("python3", "echo 3 9"), ("sbatch", ":"), ("uv", ":")):
        (folder / name).write_text(f"#!/bin/sh\n{text}\n", encoding="utf-8")
        (folder / name).chmod(0o755)
    profile = f'PATH="{folder}"\necho Welcome\nexport SLURM_CONF="/a b"\n'
    (tmp_path / ".profile").write_text(profile, encoding="utf-8")
    survey = surveyed({"HOME": str(tmp_path), "SHELL": "/bin/sh", "PATH": os.defpath})
    assert (survey.home, survey.path) == (str(tmp_path), str(folder))
    assert survey.processors == os.sysconf("SC_NPROCESSORS_ONLN")
    assert survey.commands == {"sbatch": f"{folder}/sbatch", "uv": f"{folder}/uv"}
    assert survey.pythons == (((3, 9), f"{folder}/python3"),)
    assert survey.variables == {"SLURM_CONF": "/a b"}


def test_questions_of_a_package_neither_end_the_survey_nor_mix_with_those_of_others(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    home, program = tmp_path / "home", tmp_path / "toysub"
    home.mkdir()
    program.write_text("#!/bin/sh\n", encoding="utf-8")
    program.chmod(0o755)
    path = f'PATH="{tmp_path}:$PATH"\n'
    (home / ".profile").write_text(path, encoding="utf-8")
    slurm = find_system("slurm")
    toy = replace(slurm, kind="toy", found_by=(), programs=("toysub",), survey="say name x y")
    systems = (
        toy,
        replace(toy, kind="broken", survey="say name z; if"),
        replace(toy, kind="greedy", survey="cat; say a b; exit 3"),
        replace(toy, kind="absent", programs=("no-such-command",), survey="say a c"),
    )
    monkeypatch.setattr("koala_agent.connect.survey.known_systems", lambda: systems)
    found = surveyed({"HOME": str(home), "PATH": os.environ["PATH"], "SHELL": "/bin/sh"})
    assert found.answers == {"toy": {"name": ("x y",)}, "greedy": {"a": ("b",)}}
    assert found.name != "x y"
    assert found.system is toy, "all its programs are there"
