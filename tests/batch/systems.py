"""Real batch systems on this machine, brought up by the scripts in deploy/dev."""

from __future__ import annotations

import os
import signal
import subprocess
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path

from koala_agent.lrm.batch.dialect import Dialect
from koala_agent.lrm.batch.gridengine import GridEngine
from koala_agent.lrm.batch.slurm import Slurm
from tests.live.grid import CALM, MARK, Grid

DEV = Path(__file__).parents[2] / "deploy" / "dev"
UP_S = 180.0
CLEAR_S = 90.0
GPUS = 4
"""Those of each system; a cluster has two nodes."""
RESOURCES = {"KOALA_DEV_FEATURES": "ib,rome", "KOALA_DEV_LICENSES": "matlab:3"}
SLOW_BPS = 1_000_000.0
SLOW_S = 12.0


@dataclass(frozen=True, slots=True, kw_only=True)
class System:
    """One cluster or cell: what its commands need, and how it is disturbed."""

    kind: str
    name: str
    processors: int
    environment: dict[str, str]
    folder: Path

    @property
    def dialect(self) -> Dialect:
        """Its words."""
        if self.kind == "slurm":
            return Slurm(native=("--nice",))
        return GridEngine(parallel_environment="grid", gpus=GPUS, native=("-p",))

    def run(self, *argv: str, text: str = "") -> str:
        """One of its commands, as one of its users would run it."""
        done = subprocess.run(
            argv,
            input=text,
            env={**os.environ, **self.environment},
            capture_output=True,
            text=True,
            errors="replace",
            check=False,
            timeout=60,
        )
        assert done.returncode == 0, (argv, done.stderr, done.stdout)
        return done.stdout.strip()

    def submit(self, script: str, *, processors: int = 1, name: str = "other") -> str:
        """A job of somebody else; its number."""
        script = f"#!/bin/sh\n{script}"
        common = ("-o", "/dev/null")
        if self.kind == "slurm":
            size = ("-n", str(processors), "-J", name)
            return self.run("sbatch", "--parsable", *size, *common, text=script)
        grid = ("-pe", "grid", str(processors), "-N", name, "-j", "y", "-S", "/bin/sh")
        return self.run("qsub", "-terse", *grid, *common, text=script)

    # What an administrator does ------------------------------------------------------------------

    def cancel(self, number: str) -> None:
        """Ends any job."""
        self.run("scancel" if self.kind == "slurm" else "qdel", number)

    def suspend(self, number: str, *, is_over: bool = False) -> None:
        """Takes a job's processors away for a while, or gives them back."""
        if self.kind == "slurm":
            self.run("scontrol", "resume" if is_over else "suspend", number)
        else:
            self.run("qmod", "-usj" if is_over else "-sj", number)

    @contextmanager
    def drained(self) -> Iterator[None]:
        """Half of the nodes, or the queue, take no new jobs."""
        node = f"NodeName={self.name}1"
        if self.kind == "slurm":
            self.run("scontrol", "update", node, "State=DRAIN", "Reason=a fan; with blanks")
        else:
            self.run("qmod", "-d", "*")
        try:
            yield
        finally:
            if self.kind == "slurm":
                self.run("scontrol", "update", node, "State=RESUME")
            else:
                self.run("qmod", "-e", "*")

    @contextmanager
    def without_daemon_on(self, node: str) -> Iterator[None]:
        """SIGKILL for the daemon of a node; jobs are none of its children. It is started again."""
        file = f"slurmd-{node}.pid" if self.kind == "slurm" else "execd.pid"
        os.kill(int((self.folder / file).read_text()), signal.SIGKILL)
        try:
            yield
        finally:
            if self.kind == "slurm":
                self.run("slurmd", "-f", str(self.folder / "slurm.conf"), "-N", node)
            else:
                self.run("env", f"SGE_EXECD_PIDFILE={self.folder / file}", "sge_execd")

    def has_saved(self) -> bool:
        """True when the controller has written down all jobs that it has: Slurm's takes seconds."""
        if self.kind != "slurm":
            return True
        state = (self.folder / "state" / "job_state").read_bytes()
        return all(name.encode() in state for name in self._names())

    def _names(self) -> list[str]:
        return self.run("squeue", "-h", "-o", "%j").splitlines()

    def restart_controller(self) -> None:
        """SIGKILL, and another one with the state that it has saved."""
        os.kill(self._controller(), signal.SIGKILL)
        if self.kind == "slurm":
            self.run("slurmctld", "-f", str(self.folder / "slurm.conf"))
        else:
            self.run("env", f"SGE_QMASTER_PIDFILE={self.folder / 'qmaster.pid'}", "sge_qmaster")

    # ---------------------------------------------------------------------------------------------

    def numbers(self, name: str = "") -> list[str]:
        """Numbers of the jobs that have not ended and whose name begins like this."""
        if self.kind == "slurm":
            rows = [
                line.split(" ", 1) for line in self.run("squeue", "-h", "-o", "%i %j").split("\n")
            ]
            whole = [row for row in rows if len(row) > 1]  # names may have line ends
            return [number for number, job in whole if job.startswith(name)]
        from xml.etree import ElementTree

        tree = ElementTree.fromstring(self.run("qstat", "-u", "*", "-xml"))
        return [
            row.findtext("JB_job_number") or ""
            for row in tree.iter("job_list")
            if (row.findtext("JB_name") or "").startswith(name)
        ]

    def clear(self) -> None:
        """Everybody's jobs are ended; returns when none is left."""
        until = time.monotonic() + CLEAR_S
        while numbers := self.numbers():
            assert time.monotonic() < until, numbers
            with suppress(AssertionError):  # one that ended meanwhile
                self.run("scancel" if self.kind == "slurm" else "qdel", *numbers)

    def _controller(self) -> int:
        file = "slurmctld.pid" if self.kind == "slurm" else "qmaster.pid"
        return int((self.folder / file).read_text())

    @contextmanager
    def controller_away(self) -> Iterator[None]:
        """The controller stands still: its commands get no answer."""
        process = self._controller()
        os.kill(process, signal.SIGSTOP)
        try:
            yield
        finally:
            os.kill(process, signal.SIGCONT)

    def lrm_table(self, mark: str) -> str:
        """The agent's `[lrm]` for this system; `mark` is a variable of every batch job."""
        name, _, value = mark.partition("=")
        lines = [f'kind = "{self.kind}"', "poll_s = 0.3", "command_limit_s = 4.0"]
        given = dict(self.environment)
        if self.kind == "slurm":
            given[name] = value  # sbatch hands its environment on
        else:
            lines += ['parallel_environment = "grid"', f'options = ["-v", "{mark}"]']
        pairs = ", ".join(f'{key} = "{text}"' for key, text in given.items())
        return "\n".join(["[lrm]", *lines, f"environment = {{ {pairs} }}", ""])


@contextmanager
def slurm_clusters(
    folder: Path, clusters: str, *, hidden: Path | None = None
) -> Iterator[dict[str, System]]:
    """Clusters by name; `clusters` as in "alpha:2x8 beta:2x16". Their jobs do not see what is in
    the folder `hidden`."""
    variables = {"KOALA_DEV_CLUSTERS": clusters, "KOALA_DEV_GPUS": f"a100:{GPUS // 2}", **RESOURCES}
    with _up("slurm-clusters.sh", folder, variables, hidden=hidden):
        yield {
            name: System(
                kind="slurm",
                name=name,
                processors=processors,
                environment={"SLURM_CONF": str(folder / name / "slurm.conf")},
                folder=folder / name,
            )
            for name, processors in _sizes(clusters)
        }


@contextmanager
def grid_engine_cells(
    folder: Path, cells: str, *, first_group: int = 65_000, hidden: Path | None = None
) -> Iterator[dict[str, System]]:
    """Cells by name; `cells` as in "gamma:1x16". Needs root. Cells that are up at the same time
    need group ids of their own."""
    variables = {
        "KOALA_DEV_CELLS": cells,
        "KOALA_DEV_GID_BASE": str(first_group),
        "KOALA_DEV_GPUS": str(GPUS),
        **RESOURCES,
    }
    with _up("gridengine-cells.sh", folder, variables, hidden=hidden):
        yield {
            name: System(
                kind="gridengine",
                name=name,
                processors=processors,
                environment=_settings(folder / name / "settings.sh"),
                folder=folder / name,
            )
            for name, processors in _sizes(cells)
        }


@contextmanager
def grid_over(
    folder: Path,
    systems: dict[str, System],
    *,
    more: Mapping[str, str] | None = None,
    keep_s: float = 3600.0,
    grace_s: float = 30.0,
    slow_file: str = "",
) -> Iterator[Grid]:
    """Daemon and agents in front of these systems; nothing may be left of their jobs. `more` is for
    their tables `[lrm]`; `slow_file` is at the first of them, and takes `SLOW_S` to another."""
    sizes = {name: system.processors for name, system in systems.items()}
    parameters = {**CALM, "hold_s": 60.0, "bandwidth_default_bps": SLOW_BPS}
    grid = Grid(folder, sites=sizes, parameters=parameters, grace_s=grace_s)
    if slow_file:
        store = grid.store(grid.sites[0])
        store.mkdir(parents=True)
        (store / slow_file).write_bytes(b"\0" * int(SLOW_S * SLOW_BPS))
    for name, system in systems.items():
        text = grid.config(name).read_text(encoding="utf-8")
        text = text.replace("[agent]\n", f"[agent]\nkeep_s = {keep_s}\n")
        text = text.replace("[files]\n", f"[files]\nrate = {SLOW_BPS}\n")
        if system.kind == "gridengine":
            text = text.replace("gpus = 0\n", f"gpus = {GPUS}\n")
        lrm = system.lrm_table(f"{MARK}={grid.mark}") + (more or {}).get(name, "")
        grid.config(name).write_text(text + lrm, encoding="utf-8")
    try:
        grid.start()
        yield grid
    finally:
        grid.stop()
        left = {name: system.numbers("koala-") for name, system in systems.items()}
        for system in systems.values():
            system.clear()
    grid.check()
    assert left == {name: [] for name in systems}


@contextmanager
def _up(
    script: str, folder: Path, variables: dict[str, str], *, hidden: Path | None = None
) -> Iterator[None]:
    """With `hidden` in a mount namespace of its own, in which an empty folder lies over it."""
    over = 'mount -t tmpfs none "$0" && exec "$@"'
    alone = [] if hidden is None else ["unshare", "--mount", "sh", "-c", over, str(hidden)]

    def call(verb: str) -> None:
        subprocess.run(
            [*alone, DEV / script, verb, str(folder)],
            env={**os.environ, **variables},
            check=True,
            timeout=UP_S,
            stdout=subprocess.DEVNULL,
        )

    call("up")
    try:
        yield
    finally:
        call("down")


def _sizes(text: str) -> Iterator[tuple[str, int]]:
    for word in text.split():
        name, _, size = word.partition(":")
        nodes, _, processors = size.partition("x")
        yield name, int(nodes) * int(processors)


def _settings(path: Path) -> dict[str, str]:
    """The variables that a cell's settings set."""
    names = ("SGE_ROOT", "SGE_CELL", "SGE_ARCH", "SGE_QMASTER_PORT", "SGE_EXECD_PORT", "PATH")
    words = " ".join(f'"${name}"' for name in names)
    out = subprocess.run(
        ["bash", "-c", f". {path}; printf '%s\\n' {words}"],
        capture_output=True,
        text=True,
        check=True,
    ).stdout
    return dict(zip(names, out.splitlines(), strict=True))
