"""OAR clusters on this machine, with the programs of a newer Debian."""

from __future__ import annotations

import json
import os
import signal
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import ClassVar

from koala_agent.lrm.batch.oar import OAR
from tests.batch.systems.system import DEV, GPUS, RESOURCES, System, brought_up, sizes_in

BACK_S = 60


@dataclass(frozen=True, kw_only=True)
class OARCluster(System):
    """See System. The controller is the database: all commands need it, and the server comes back
    to it by itself."""

    kind: ClassVar[str] = "oar"
    command_limit_s: ClassVar[float] = 30.0  # programs in Perl, which a busy machine starts slowly

    @property
    def dialect(self) -> OAR:
        """See System."""
        return OAR(native=("-p",))

    def submit(self, script: str, *, processors: int = 1, name: str = "other") -> str:
        """See System."""
        size = ("-l", f"/host=1/core={processors},walltime=1:0:0")
        more = ("-n", name, "-O", "/dev/null", "-E", "/dev/null", "-d", "/tmp")
        told = self.run("oarsub", *more, *size, script.strip().replace("\n", "; "))
        return told.rpartition("OAR_JOB_ID=")[2]

    def numbers(self, name: str = "") -> list[str]:
        """See System; one that is being ended counts, until its processes are gone."""
        jobs = json.loads(self.run("oarstat", "-J", "-f") or "{}")
        return [number for number, job in jobs.items() if (job["name"] or "").startswith(name)]

    def cancel(self, *numbers: str) -> None:
        """See System."""
        self.run("oardel", *numbers)

    def suspend(self, number: str, *, is_over: bool = False) -> None:
        """See System."""
        self.run("oarresume" if is_over else "oarhold", *([] if is_over else ["-r"]), number)

    @contextmanager
    def drained(self) -> Iterator[None]:
        """See System: the machine."""
        self.run("oarnodesetting", "-h", "127.0.1.1", "--drain=on")
        try:
            yield
        finally:
            self.run("oarnodesetting", "-h", "127.0.1.1", "--drain=off")

    @contextmanager
    def without_daemon_on(self, node: str) -> Iterator[None]:
        """See System: the sshd by which the server reaches the machine."""
        os.kill(int((self.folder / "sshd.pid").read_text()), signal.SIGKILL)
        try:
            yield
        finally:
            self._start("nodes")

    def controller(self) -> int:
        """See System."""
        return int((self.folder / "db/data/postmaster.pid").read_text().split()[0])

    def start_controller(self) -> None:
        """See System."""
        self._start("database")

    def restart_server(self) -> None:
        """SIGKILL for OAR's server and all its parts, and another one."""
        self._signal_server("KILL")
        self._start("server")

    @contextmanager
    def server_away(self) -> Iterator[None]:
        """The server stands still: what is submitted is not scheduled."""
        self._signal_server("STOP")
        try:
            yield
        finally:
            self._signal_server("CONT")

    def _signal_server(self, name: str) -> None:
        session = (self.folder / "server.pid").read_text().strip()
        subprocess.run(["pkill", f"-{name}", "-s", session], check=True)

    def _start(self, what: str) -> None:
        command = [str(DEV / "oar-clusters.sh"), f"start-{what}", str(self.folder)]
        subprocess.run(command, check=True, stdout=subprocess.DEVNULL, timeout=BACK_S)

    def words_with(self, name: str, value: str) -> tuple[list[str], dict[str, str]]:
        """See System: OAR hands nothing on, so that nothing can be marked."""
        return [], {}


@contextmanager
def oar_clusters(
    folder: Path, clusters: str, *, hidden: Path | None = None
) -> Iterator[dict[str, System]]:
    """Clusters by name; `clusters` as in "omega:1x16"."""
    variables = {
        "KOALA_DEV_OARS": clusters,
        "KOALA_DEV_GPUS": str(GPUS),
        "KOALA_DEV_OAR_ROUND_S": "5",
        **RESOURCES,
    }
    with brought_up("oar-clusters.sh", folder, variables, hidden=hidden):
        yield {
            name: OARCluster(
                name=name,
                processors=processors,
                environment={"PATH": f"{folder / name / 'bin'}:/usr/sbin:/usr/bin:/sbin:/bin"},
                folder=folder / name,
            )
            for name, processors in sizes_in(clusters)
        }
