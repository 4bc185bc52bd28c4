"""Grid Engine cells on this machine."""

from __future__ import annotations

import os
import re
import signal
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import ClassVar
from xml.etree import ElementTree

from koala_agent.lrm.batch.gridengine import GridEngine
from tests.batch.systems.system import GPUS, RESOURCES, System, brought_up, settings_of, sizes_in


@dataclass(frozen=True, kw_only=True)
class GridEngineCell(System):
    """See System."""

    kind: ClassVar[str] = "gridengine"
    site_gpus: ClassVar[int] = GPUS

    @property
    def dialect(self) -> GridEngine:
        """See System."""
        return GridEngine(parallel_environment="grid", gpus=GPUS, native=("-p",))

    def submit(self, script: str, *, processors: int = 1, name: str = "other") -> str:
        """See System."""
        size = ("-pe", "grid", str(processors), "-N", name, "-o", "/dev/null", "-j", "y")
        return self.run("qsub", "-terse", *size, "-S", "/bin/sh", text=f"#!/bin/sh\n{script}")

    def numbers(self, name: str = "") -> list[str]:
        """See System."""
        tree = ElementTree.fromstring(self.run("qstat", "-u", "*", "-xml"))
        return [
            row.findtext("JB_job_number") or ""
            for row in tree.iter("job_list")
            if (row.findtext("JB_name") or "").startswith(name)
        ]

    def cancel(self, *numbers: str) -> None:
        """See System."""
        self.run("qdel", *numbers)

    def bookings(self) -> list[str]:
        """See System."""
        return re.findall(r"^ *([0-9]+) ", self.run("qrstat", "-u", "*"), re.MULTILINE)

    def unbook(self, *bookings: str) -> None:
        """See System."""
        for booking in bookings:
            self.run("qrdel", booking)

    def suspend(self, number: str, *, is_over: bool = False) -> None:
        """See System."""
        self.run("qmod", "-usj" if is_over else "-sj", number)

    @contextmanager
    def drained(self) -> Iterator[None]:
        """See System: the queue."""
        self.run("qmod", "-d", "*")
        try:
            yield
        finally:
            self.run("qmod", "-e", "*")

    @contextmanager
    def without_daemon_on(self, node: str) -> Iterator[None]:
        """See System."""
        file = self.folder / "execd.pid"
        os.kill(int(file.read_text()), signal.SIGKILL)
        try:
            yield
        finally:
            self.run("env", f"SGE_EXECD_PIDFILE={file}", "sge_execd")

    def controller(self) -> int:
        """See System."""
        return int((self.folder / "qmaster.pid").read_text())

    def start_controller(self) -> None:
        """See System."""
        self.run("env", f"SGE_QMASTER_PIDFILE={self.folder / 'qmaster.pid'}", "sge_qmaster")

    def words_with(self, name: str, value: str) -> tuple[list[str], dict[str, str]]:
        """See System."""
        return ['parallel_environment = "grid"', f'options = ["-v", "{name}={value}"]'], {}


WORKER_GROUPS = 10_000
"""More than the group ids of all cells of a worker."""


@contextmanager
def grid_engine_cells(
    folder: Path,
    cells: str,
    *,
    first_group: int = 65_000,
    hidden: Path | None = None,
    profile: str = "",
) -> Iterator[dict[str, System]]:
    """Cells by name; `cells` as in "gamma:1x16". Needs root. Cells that are up at the same time
    need group ids of their own, also those of two workers of pytest. They are like those of the
    `profile` (deploy/dev/gridengine-profiles)."""
    worker = int(os.environ.get("PYTEST_XDIST_WORKER", "gw0").removeprefix("gw"))
    variables = {
        "KOALA_DEV_CELLS": cells,
        "KOALA_DEV_GID_BASE": str(first_group + WORKER_GROUPS * worker),
        "KOALA_DEV_GPUS": str(GPUS),
        **RESOURCES,
    }
    with brought_up("gridengine-cells.sh", folder, variables, profile=profile, hidden=hidden):
        yield {
            name: GridEngineCell(
                name=name,
                processors=processors,
                environment=settings_of(folder / name / "settings.sh"),
                folder=folder / name,
            )
            for name, processors in sizes_in(cells)
        }
