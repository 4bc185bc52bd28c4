"""Imitated PBS servers on this machine (tests/batch/imitation)."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import ClassVar
from unittest import SkipTest

from koala_agent.lrm.batch.pbs import PBS
from tests.batch.systems.system import GPUS, System

IMITATION = Path(__file__).parents[1] / "imitation"
COMMANDS = ("qsub", "qstat", "qdel", "qhold", "qrls", "qsig", "pbsnodes")
START_S = 30.0


@dataclass(frozen=True, kw_only=True)
class PBSServer(System):
    """See System."""

    kind: ClassVar[str] = "pbs"

    @property
    def dialect(self) -> PBS:
        """See System."""
        return PBS(native=("-p",))

    def submit(self, script: str, *, processors: int = 1, name: str = "other") -> str:
        """See System."""
        words = ("-f", "-N", name, "-l", f"select=1:ncpus={processors}")
        return self.run("qsub", *words, text=f"#!/bin/sh\n{script}").partition(".")[0]

    def numbers(self, name: str = "") -> list[str]:
        """See System."""
        jobs = json.loads(self.run("qstat", "-f", "-F", "json")).get("Jobs", {})
        return [
            number.partition(".")[0]
            for number, job in jobs.items()
            if job["Job_Name"].startswith(name)
        ]

    def cancel(self, *numbers: str) -> None:
        """See System."""
        self.run("qdel", *numbers)

    def suspend(self, number: str, *, is_over: bool = False) -> None:
        """See System."""
        self.run("qsig", "-s", "resume" if is_over else "suspend", number)

    @contextmanager
    def drained(self) -> Iterator[None]:
        """See System: the machine."""
        self.run("pbsnodes", "-o", "m0")
        try:
            yield
        finally:
            self.run("pbsnodes", "-r", "m0")

    def without_daemon_on(self, node: str) -> AbstractContextManager[None]:
        """See System."""
        raise SkipTest("the imitation of PBS has no daemon on its machine")

    def controller(self) -> int:
        """See System."""
        return int((self.folder / "server.pid").read_text())

    def start_controller(self) -> None:
        """See System. It outlives the command that starts it, and says when it is up."""
        log = self.folder / "server.log"
        with log.open("a") as errors:
            program = (sys.executable, str(IMITATION / "server.py"), str(self.folder))
            command = ["setsid", "--fork", *program]
            out = subprocess.run(
                command,
                stdin=subprocess.DEVNULL,
                stdout=subprocess.PIPE,
                stderr=errors,
                check=True,
                text=True,
                timeout=START_S,
            ).stdout
        assert out == "up\n", log.read_text()

    def words_with(self, name: str, value: str) -> tuple[list[str], dict[str, str]]:
        """See System."""
        return [f'options = ["-v", "{name}={value}"]'], {}


@contextmanager
def pbs_server(folder: Path, name: str, processors: int) -> Iterator[dict[str, System]]:
    """One server with one machine, by its name."""
    site = {
        "queues": ["workq", "batch"],
        "has": {"ncpus": processors, "ngpus": GPUS, "mem": 64 * 2**20},
        "features": ["ib", "rome"],
        "licences": {"matlab": 3},
    }
    (folder / "site.json").write_text(json.dumps(site))
    (folder / "pbs.conf").write_text(f"PBS_SERVER={folder / 'socket'}\n")
    programs = folder / "bin"
    programs.mkdir()
    for command in COMMANDS:
        program = programs / command
        code = (IMITATION / "commands.py").read_text()
        program.write_text(f"#!{sys.executable} -IS\n{code}")
        program.chmod(0o755)
    system = PBSServer(
        name=name,
        processors=processors,
        environment={
            "PBS_CONF_FILE": str(folder / "pbs.conf"),
            "PATH": f"{programs}:/usr/local/bin:/usr/bin:/bin",
        },
        folder=folder,
    )
    system.start_controller()
    try:
        yield {name: system}
        system.clear()
    finally:
        with suppress(ProcessLookupError):
            os.kill(system.controller(), signal.SIGKILL)
