"""HTCondor pools on this machine, with the programs of a newer Debian."""

from __future__ import annotations

import json
import os
import re
import signal
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import ClassVar

from koala_agent.lrm.batch.htcondor import HTCondor
from tests.batch.systems.system import GPUS, RESOURCES, System, brought_up, settings_of, sizes_in

BACK_S = 60.0
QUEUED = """\
universe = vanilla
executable = /bin/sh
transfer_executable = False
should_transfer_files = YES
transfer_output_files = ""
"""


@dataclass(frozen=True, kw_only=True)
class CondorPool(System):
    """See System."""

    kind: ClassVar[str] = "htcondor"

    @property
    def dialect(self) -> HTCondor:
        """See System."""
        return HTCondor(native=("+WantFlocking",))

    def submit(self, script: str, *, processors: int = 1, name: str = "other") -> str:
        """See System; the script becomes an argument of the shell."""
        words = script.strip().replace("\n", "; ").replace("'", "''").replace('"', '""')
        lines = f"{QUEUED}arguments = \"-c '{words}'\"\nrequest_cpus = {processors}\nqueue\n"
        called = ("-append", f'+KoalaClaim = "{name}"')
        return self.run("condor_submit", "-terse", *called, "-", text=lines).partition(".")[0]

    def numbers(self, name: str = "") -> list[str]:
        """See System; one that is being removed counts, until its processes are gone."""
        ads = self.run("condor_q", "-allusers", "-json", "-attributes", "ClusterId,KoalaClaim")
        return [
            str(ad["ClusterId"])
            for ad in json.loads(ads or "[]")
            if str(ad.get("KoalaClaim", "")).startswith(name)
        ]

    def cancel(self, *numbers: str) -> None:
        """See System."""
        self.run("condor_rm", *numbers)

    def suspend(self, number: str, *, is_over: bool = False) -> None:
        """See System."""
        self.run("condor_continue" if is_over else "condor_suspend", number)

    def clear(self) -> None:
        """See System; the collector hears of the end of a job later than the queue does, and until
        then its processors seem to be in use."""
        super().clear()
        until = time.monotonic() + BACK_S
        while self.run("condor_status", "-af", "Name", "-constraint", "Cpus < TotalSlotCpus"):
            assert time.monotonic() < until

    @contextmanager
    def drained(self) -> Iterator[None]:
        """See System: the machine."""
        self._set_start("False")
        try:
            yield
        finally:
            self._set_start("True")

    def _set_start(self, value: str) -> None:
        path = self.folder / "condor_config"
        text = re.sub(r"(?m)^START = .*$", f"START = {value}", path.read_text(encoding="utf-8"))
        path.write_text(text, encoding="utf-8")
        self.run("condor_reconfig", "-daemon", "startd")

    @contextmanager
    def without_daemon_on(self, node: str) -> Iterator[None]:
        """See System; the master starts it again, and jobs end with it."""
        os.kill(self._daemon("startd"), signal.SIGKILL)
        try:
            yield
        finally:
            self._until_answered("condor_status", "-af", "Name")

    def has_saved(self) -> bool:
        """See System: until then a job is held, and would stay so."""
        return self.run("condor_q", "-af", "ClusterId", "-constraint", "JobStatus == 5") == ""

    def controller(self) -> int:
        """See System."""
        return self._daemon("schedd")

    def start_controller(self) -> None:
        """See System: the master does."""
        self._until_answered("condor_q")

    def _daemon(self, name: str) -> int:
        """The process that the master has started last."""
        log = (self.folder / "log" / "MasterLog").read_text()
        return int(re.findall(rf'condor_{name}", pid and pgroup = ([0-9]+)', log)[-1])

    def _until_answered(self, *command: str) -> None:
        until = time.monotonic() + BACK_S
        while True:
            try:
                self.run(*command)
                return
            except AssertionError:
                if time.monotonic() > until:
                    raise

    def words_with(self, name: str, value: str) -> tuple[list[str], dict[str, str]]:
        """See System."""
        return [f"""options = ['environment = "{name}={value}"']"""], {}


@contextmanager
def condor_pools(
    folder: Path, pools: str, *, accounts: bool = False, hidden: Path | None = None
) -> Iterator[dict[str, System]]:
    """Pools by name; `pools` as in "kappa:1x16". With `accounts` each runs its own jobs, which
    needs root; else all are the pool's own."""
    variables = {
        "KOALA_DEV_POOLS": pools,
        "KOALA_DEV_GPUS": str(GPUS),
        "KOALA_DEV_ACCOUNTS": "1" if accounts else "",
        **RESOURCES,
    }
    with brought_up("htcondor-pools.sh", folder, variables, hidden=hidden):
        yield {
            name: CondorPool(
                name=name,
                processors=processors,
                environment=settings_of(folder / name / "settings.sh"),
                folder=folder / name,
            )
            for name, processors in sizes_in(pools)
        }
