"""Replays of a log on one site, under a local scheduler alone."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import KW_ONLY, dataclass
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, Self

from koala.common.runtime.foreign.guards import noting_replacements
from koala.common.runtime.plugins import name_of
from koala.errors import ConfigError
from koala.lab.experiments import Policy, changed, label
from koala.lab.fields import check_fields
from koala.lab.results import Result, flat
from koala.lab.rows import Rows
from koala.lab.sim.log_replay import replay
from koala.lab.sim.options import policy_name
from koala.lab.workload.arrivals import Overrun
from koala.lab.workloads import Log, format_of


@dataclass(frozen=True)
class Replay:
    """A log of jobs on one site (`koala simulate trace`). The seed has no effect.

    - `policy`: local scheduler: fcfs, easy, conservative, an order, module:function, or a function.
    - `processors`: of the site; None for what the log says, else its largest job.
    - `until`: simulated second at which it stops.
    """

    log: Log
    _: KW_ONLY
    policy: Policy = "easy"
    processors: int | None = None
    until: int | None = None

    def __post_init__(self) -> None:
        check_fields(self)
        if not self.log.is_whole:
            raise ConfigError(f"log = {self.log}: a Replay has a whole log; until can end it")
        self._policy()

    def _policy(self) -> str:
        named = self.policy if isinstance(self.policy, str) else name_of(self.policy)
        return policy_name("policy", "local", named)

    def changed(self, **changes: Any) -> Self:  # noqa: ANN401 - values of any field
        """Return the replay with other values of fields. Raises ConfigError."""
        found: Self = changed(self, changes)
        return found

    def run(
        self,
        seed: int = 1,
        *,
        progress: Callable[[float], None] | None = None,
        has_jobs: bool = True,
    ) -> Result:
        """Replay it. `progress` gets the number of bytes that were read. Raises WorkloadError."""
        path = Path(self.log.path)
        setting = replay.ReplaySetting(
            path=path,
            form=format_of(path, self.log.format),
            discipline=self._policy(),
            processors=self.processors,
            overrun=Overrun(self.log.overrun),
            until=self.until,
        )
        with TemporaryDirectory(prefix="koala-") as folder:
            jobs = Path(folder) / "jobs.csv" if has_jobs else None
            with noting_replacements() as replaced:
                document = replay.Replay(setting, jobs_out=jobs).run(progress or _ignore)
            rows = Rows(()) if jobs is None else _rows(jobs)
        return Result(
            name=str(self),
            seed=seed,
            metrics=dict(flat(document)),
            jobs=rows,
            is_saturated=document["saturated"],
            document=document,
        ).noted(replaced)

    def __str__(self) -> str:
        return f"{self.log} under {label(self.policy)}"


def _ignore(_done: float) -> None:
    pass


def _rows(path: Path) -> Rows:
    first, *lines = path.read_text(encoding="ascii").splitlines()
    names = first.split(",")
    values = (map(_cell, line.split(",")) for line in lines)
    return Rows((dict(zip(names, row, strict=True)) for row in values), names)


def _cell(text: str) -> int | float | str:
    """Read a cell of the table of jobs: whole numbers, numbers with decimals, and words."""
    if text.isalpha():
        return text
    return float(text) if "." in text else int(text)
