"""Login shells and their start-up files: what they print, change, or start instead of a command.

Each case is a real account of a real ssh server, whose home has these files.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from unittest import SkipTest

import pytest

from koala.errors import LocalManagerError
from koala_agent.connect.survey import read_survey, survey_command
from koala_agent.transport.interface import Command
from tests.agent.transport.servers import a_server, a_transport
from tests.harness.programs import needed_program
from tests.harness.ssh_server import SSHServer

pytestmark = pytest.mark.live

HELLO = "echo Welcome to atlas; echo stty: no terminal >&2"
PROFILE = """\
export SQUEUE_FORMAT=%i COLUMNS=20 LC_ALL=C.UTF-8 SBATCH_PARTITION=debug SLURM_HINT=x MODULEPATH=/m
"""
MODULE = "module() { echo loaded $2; }; export -f module\n"
CSHRC = """\
setenv SQUEUE_FORMAT %i; setenv SBATCH_PARTITION debug; setenv MODULEPATH /m; setenv LC_ALL C.UTF-8
"""
ECHO = "cat; env; bash --norc -c 'module load x'; exit 3"
HOMES: dict[str, tuple[str, dict[str, str]]] = {
    "bash that greets": ("bash", {".bashrc": HELLO, ".profile": PROFILE, ".bash_logout": HELLO}),
    "bash with functions": ("bash", {".bashrc": HELLO, ".bash_profile": f"{PROFILE}{MODULE}"}),
    "bash that is strict": ("bash", {".bash_profile": f"{PROFILE}set -eu\n", ".bashrc": "set -eu"}),
    "bash that asks": ("bash", {".bash_profile": f"{PROFILE}{HELLO}; read answer; exec 1>&-"}),
    "bash that becomes another": ("bash", {".bashrc": PROFILE, ".bash_profile": "exec cat"}),
    "dash": ("dash", {".profile": f"{HELLO}\n{PROFILE}"}),
    "tcsh": ("tcsh", {".cshrc": f"echo Welcome to atlas\n{CSHRC}", ".login": "exec cat"}),
}


@contextmanager
def account_of(shell: str, files: dict[str, str], settings: str = "") -> Iterator[SSHServer]:
    """An account with this shell and these files."""
    if os.geteuid() != 0:
        raise SkipTest("an account of another shell needs root")
    path = needed_program(shell, package=shell)
    with a_server(shell=path, settings=f"MaxStartups 100\n{settings}") as server:
        for name, text in files.items():
            (server.home / name).write_text(f"{text}\n", encoding="utf-8")
        yield server


@pytest.mark.parametrize("case", HOMES)
async def test_no_start_up_file_changes_an_answer_a_file_or_the_survey(case: str) -> None:
    shell, files = HOMES[case]
    submit = Command(
        argv=("/bin/bash", "--norc", "-pc", ECHO),
        stdin="#!/bin/sh\n",
        hands_on=True,
        without=("SBATCH_*", "SLURM_*"),
    )
    with account_of(shell, files) as server:
        environment = {"SLURM_CONF": "/etc/slurm/it's.conf"}
        async with a_transport(server, environment=environment) as site:
            asked = await site.run(
                Command(argv=("/bin/sh", "-c", "cat; env; echo bad >&2"), stdin="a")
            )
            assert asked.err == "bad\n"
            assert asked.out.startswith("a")
            for name in ("SQUEUE_FORMAT", "COLUMNS", "SBATCH_PARTITION", "MODULEPATH"):
                assert f"{name}=" not in asked.out, asked
            assert "LC_ALL=C\n" in asked.out
            assert "SLURM_CONF=/etc/slurm/it's.conf\n" in asked.out
            for_programs = await site.run(submit)
            assert for_programs.status == 3
            assert for_programs.out.startswith("#!/bin/sh\n")
            for line in ("MODULEPATH=/m", "SQUEUE_FORMAT=%i", "LC_ALL=C.UTF-8"):
                assert f"\n{line}\n" in for_programs.out, for_programs
            assert "SBATCH_PARTITION" not in for_programs.out
            assert "SLURM_HINT" not in for_programs.out
            assert "\nSLURM_CONF=/etc/slurm/it's.conf\n" in for_programs.out
            if case == "bash with functions":
                assert for_programs.out.endswith("\nloaded x\n")
            await site.put(f"{server.home}/file", bytes(range(256)))
            assert await site.get(f"{server.home}/file", 1000) == bytes(range(256))
            found = read_survey(await site.run(survey_command()))
            assert found is not None
            assert found.home == str(server.home)
            greets = any(HELLO in text for name, text in files.items() if name == ".bashrc")
            assert site.noise == ("Welcome to atlas" if greets or shell == "tcsh" else "")


@pytest.mark.parametrize(
    ("shell", "files", "settings"),
    [
        ("bash", {".bashrc": "exec cat"}, ""),
        ("bash", {".bashrc": "echo good bye; exit 0"}, ""),
        ("tcsh", {".cshrc": "exec cat"}, ""),
        ("bash", {}, "ForceCommand echo This account is for rsync alone"),
    ],
)
async def test_a_shell_that_runs_no_command_is_told_in_one_sentence(
    shell: str, files: dict[str, str], settings: str
) -> None:
    with account_of(shell, files, settings) as server:
        async with a_transport(server) as site:
            with pytest.raises(LocalManagerError) as raised:
                await site.run(Command(argv=("touch", f"{server.home}/ran"), stdin="touch ran-too"))
        assert "the login shell at atlas runs no command: its start-up files end it" in str(
            raised.value
        )
        if "good bye" in str(files) + settings:
            assert "it wrote 'good bye'" in str(raised.value)
        assert not list(server.home.glob("ran*"))
