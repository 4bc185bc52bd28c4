"""Slurm clusters on this machine."""

from __future__ import annotations

import os
import re
import shlex
import shutil
import signal
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from typing import ClassVar

from koala_agent.lrm.batch.slurm import Slurm
from tests.batch.systems.system import (
    GPUS,
    RESOURCES,
    System,
    brought_up,
    entering,
    settings_of,
    sizes_in,
)

PROGRAMS = "bin"
"""Folder of the commands, where another Debian's Slurm is tried (KOALA_DEV_SLURM_ROOT)."""


@dataclass(frozen=True, kw_only=True)
class SlurmCluster(System):
    """See System."""

    kind: ClassVar[str] = "slurm"

    @property
    def dialect(self) -> Slurm:
        """See System."""
        return Slurm(native=("--nice",))

    def submit(self, script: str, *, processors: int = 1, name: str = "other") -> str:
        """See System."""
        size = ("-n", str(processors), "-J", name, "-o", "/dev/null")
        return self.run("sbatch", "--parsable", *size, text=f"#!/bin/sh\n{script}")

    def numbers(self, name: str = "") -> list[str]:
        """See System."""
        rows = [line.split(" ", 1) for line in self.run("squeue", "-h", "-o", "%i %j").split("\n")]
        whole = [row for row in rows if len(row) > 1]  # names may have line ends
        return [number for number, job in whole if job.startswith(name)]

    def cancel(self, *numbers: str) -> None:
        """See System."""
        self.run("scancel", *numbers)

    def bookings(self) -> list[str]:
        """See System."""
        listed = self.run("scontrol", "-o", "show", "reservation")
        return re.findall(r"^ReservationName=(\S+)", listed, re.MULTILINE)

    def unbook(self, *bookings: str) -> None:
        """See System."""
        for booking in bookings:
            self.run("scontrol", "delete", f"reservationname={booking}")

    def suspend(self, number: str, *, is_over: bool = False) -> None:
        """See System."""
        self.run("scontrol", "resume" if is_over else "suspend", number)

    @contextmanager
    def drained(self) -> Iterator[None]:
        """See System: the first node."""
        node = f"NodeName={self.name}1"
        self.run("scontrol", "update", node, "State=DRAIN", "Reason=a fan; with blanks")
        try:
            yield
        finally:
            self.run("scontrol", "update", node, "State=RESUME")

    @contextmanager
    def without_daemon_on(self, node: str) -> Iterator[None]:
        """See System."""
        os.kill(int((self.folder / f"slurmd-{node}.pid").read_text()), signal.SIGKILL)
        try:
            yield
        finally:
            other = ("-d", str(self._programs / "slurmstepd")) if self._programs.exists() else ()
            self.run("slurmd", "-f", str(self.folder / "slurm.conf"), "-N", node, *other)

    @property
    def _programs(self) -> Path:
        return self.folder.parent / PROGRAMS

    def has_saved(self) -> bool:
        """See System; it takes seconds. A start alone is not written down: a change is."""
        file = self.folder / "state" / "job_state"
        try:
            state, at_s = file.read_bytes(), file.stat().st_mtime
        except FileNotFoundError:  # it is being replaced
            return False
        rows = self.run("squeue", "-h", "-o", "%i|%t|%S|%j").splitlines()
        for number, now, start, name in (row.split("|", 3) for row in rows):
            is_late = now == "R" and datetime.fromisoformat(start).timestamp() + 1 > at_s
            if is_late or name.encode() not in state:
                self.run("scontrol", "update", f"JobId={number}", "Comment=saved")
                return False
        return True

    def controller(self) -> int:
        """See System."""
        return int((self.folder / "slurmctld.pid").read_text())

    def start_controller(self) -> None:
        """See System."""
        self.run("slurmctld", "-f", str(self.folder / "slurm.conf"))

    def words_with(self, name: str, value: str) -> tuple[list[str], dict[str, str]]:
        """See System: sbatch hands its environment on."""
        return [], {name: value}


COMMANDS = ("sbatch", "squeue", "scancel", "sinfo", "scontrol", "sacct", "srun")


def _entered(folder: Path, network: str) -> Path:
    """Make Slurm's commands as they are where the network is another one; return their folder."""
    commands = folder / "commands"
    commands.mkdir()
    for name in COMMANDS:
        if (found := shutil.which(name)) is None:
            continue
        line = shlex.join([*entering(network), found])
        (commands / name).write_text(f'#!/bin/sh\nexec {line} "$@"\n', encoding="utf-8")
        (commands / name).chmod(0o755)
    return commands


@contextmanager
def slurm_clusters(
    folder: Path,
    clusters: str,
    *,
    hidden: Path | None = None,
    network: str = "",
    root: str | None = None,
    profile: str = "",
) -> Iterator[dict[str, System]]:
    """Clusters by name; `clusters` as in "alpha:2x8 beta:2x16". Their jobs do not see what is in
    the folder `hidden`. With a `network` namespace all of them is in there; commands enter it.
    `root` is the folder of the Debian whose Slurm it is, empty for this one. They are
    like those of the `profile` (deploy/dev/slurm-profiles)."""
    more = {"PATH": f"{_entered(folder, network)}:{os.environ['PATH']}"} if network else {}
    variables = {"KOALA_DEV_CLUSTERS": clusters, "KOALA_DEV_GPUS": f"a100:{GPUS // 2}", **RESOURCES}
    if root is not None:
        variables["KOALA_DEV_SLURM_ROOT"] = root
    with brought_up(
        "slurm-clusters.sh", folder, variables, profile=profile, hidden=hidden, network=network
    ):
        if not network and (folder / PROGRAMS).exists():
            more = {"PATH": f"{folder / PROGRAMS}:{os.environ['PATH']}"}
        yield {
            name: SlurmCluster(
                name=name,
                processors=processors,
                environment={"SLURM_CONF": str(folder / name / "slurm.conf"), **more},
                folder=folder / name,
                login=settings_of(folder / name / "settings.sh"),
            )
            for name, processors in sizes_in(clusters)
        }
