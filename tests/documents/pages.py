"""Running a page: its blocks in their order, in one folder that looks like a clone."""

from __future__ import annotations

import os
import re
import subprocess
import sys
import tempfile
import tomllib
from dataclasses import dataclass
from pathlib import Path
from typing import get_type_hints

import msgspec

import koala.daemon.config as daemon
import koala_agent.config_tables as agent
from koala.common.runtime.settings_file import type_at
from koala.job_descriptions import read_job
from koala_agent.lrm.batch_system import DEFAULT, find_system
from tests.cli.command import environment, koala_here
from tests.documents.blocks import DATA, Block, missing, programs, steps
from tests.harness.forked import Surroundings, start, write_launcher
from tests.tidy.sources import ROOT

LIMIT_S = 600.0
PROGRAMS = {"koala": "koala.cli.main", "koala-agent": "koala_agent.__main__"}
IMPORTED = (
    "scipy.special",
    "matplotlib.figure",
    "koala.lab.experiments",
    "koala.lab.sweeps",
    "koala.lab.commands.simulate",
    "koala.lab.commands.papers.multiqueue",
)
"""Modules that many of these commands import, and whose import takes longer than they do."""
SHIPPED = ("examples", "deploy", "docs", "tests")
JOB = re.compile(r"\bj(\d+)\b")
TABLES: dict[str, type[msgspec.Struct]] = {
    **{
        field.name: type_at(agent.Config, field.name)
        for field in msgspec.structs.fields(agent.Config)
    },
    "policies": daemon.PoliciesTable,
    "metrics": daemon.DaemonMetricsTable,
    "traces": daemon.TracesTable,
}


@dataclass(slots=True, kw_only=True)
class Page:
    """A document while it is run."""

    path: Path
    folder: Path
    address: str = ""
    first_job: int = 0
    """Jobs that the grid has seen before: j1 of the page is the next one."""

    def run(self, *, long: bool) -> None:
        """Run the blocks that can run; with `long`, those that take long as well."""
        bin_folder = prepare(self.folder)
        for block in programs(self.path):
            if block.reason is not None or (block.is_long and not long):
                continue
            if name := block.marks.get("file"):
                path = self.folder / name
                path.parent.mkdir(parents=True, exist_ok=True)
                path.write_text(block.text, encoding="utf-8")
            if block.language in DATA:
                check(block)
            elif block.language == "python":
                if not name:
                    self._python(block, bin_folder)
            elif block.language in ("sh", "console"):
                self._shell(block, bin_folder)

    def _shell(self, block: Block, bin_folder: Path) -> None:
        for step in steps(block):
            commands = JOB.sub(lambda found: f"j{int(found[1]) + self.first_job}", step.commands)
            words = ["bash", "-euo", "pipefail", "-c", commands]
            run = run_words(words, self.folder, self._variables(bin_folder))
            said = f"{block.place}:\n{commands}\n{run.stdout}"
            assert run.returncode == 0, said
            assert missing(step.shown, run.stdout, exact="exact" in block.marks) == [], said

    def _python(self, block: Block, bin_folder: Path) -> None:
        program = f"import sys; sys.path.insert(0, '')\n{block.text}"  # as `python -c` has it
        with tempfile.TemporaryFile() as said:
            around = Surroundings(
                stdout=said,
                stderr=said,
                environment=self._variables(bin_folder),
                folder=self.folder,
            )
            status = start(program, around=around, modules=IMPORTED).wait(LIMIT_S)
            said.seek(0)
            printed = said.read().decode()
        assert status == 0, f"{block.place}:\n{printed}"

    def _variables(self, bin_folder: Path) -> dict[str, str]:
        more = {"KOALA_ADDRESS": self.address} if self.address else {}
        variables = environment(PYTHONDONTWRITEBYTECODE="1", **more)
        variables["PATH"] = os.pathsep.join(
            [str(bin_folder), str(Path(sys.executable).parent), variables["PATH"]]
        )
        return variables


def run_words(
    words: list[str], folder: Path, variables: dict[str, str]
) -> subprocess.CompletedProcess[str]:
    """Run a command in a folder; all that it prints is its output."""
    return subprocess.run(
        words,
        cwd=folder,
        env=variables,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        timeout=LIMIT_S,
        check=False,
    )


def prepare(folder: Path) -> Path:
    """Make a folder look like a clone; return the folder of its programs, this source tree."""
    for name in SHIPPED:
        folder.joinpath(name).symlink_to(ROOT / name)
    bin_folder = folder / ".bin"
    bin_folder.mkdir()
    for name, module in PROGRAMS.items():
        write_launcher(bin_folder / name, module, *IMPORTED)
    return bin_folder


def jobs_seen(address: str) -> int:
    """Return the number of the grid's newest job."""
    run = koala_here("list", "--last", "1", "--format", "{job}", "--address", address)
    assert run.returncode == 0, run.stderr
    return int(run.stdout.strip().removeprefix("j") or 0)


def check(block: Block) -> None:
    """Read data as the product does: job descriptions, and files of daemons and agents."""
    try:
        if block.language == "toml":
            _check_toml(block.text)
        else:
            reading = read_job(block.text.encode())
            assert reading.spec.components
    except Exception as error:
        raise AssertionError(f"{block.place}: {error}") from error


def _check_toml(text: str) -> None:
    """Read keys and values of a daemon's or an agent's tables; others need only be TOML."""
    for name, table in tomllib.loads(text).items():
        kind = TABLES.get(name) if isinstance(table, dict) else None
        if name == "lrm":
            kind = find_system(table.get("kind", DEFAULT)).settings
        hints = get_type_hints(kind) if kind is not None else {}
        for key, value in table.items() if kind is not None else ():
            assert key in hints, f"{name}.{key} is no key"
            msgspec.convert(value, hints[key])
