"""Replay from a log to figures; it may be interrupted."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from itertools import chain
from pathlib import Path
from typing import Any

from koala.common.runtime.atomic_file import atomic_file
from koala.lab.sim.log_replay.events import Change, check_changes
from koala.lab.sim.log_replay.job_files import COLUMNS, CsvRows, JobRows, OutcomeLog, is_log
from koala.lab.sim.log_replay.run import TraceRun
from koala.lab.sim.log_replay.series import Series
from koala.lab.sim.options import choice, policy, whole
from koala.lab.workload.arrivals import Arrival, Arrivals, DisorderError, Overrun, machine
from koala.lab.workload.logs import Format, Log
from koala.queue_model import Discipline, local_scheduler


@dataclass(frozen=True, slots=True, kw_only=True)
class ReplaySetting:
    """Parameters that determine the result."""

    path: Path
    form: Format
    discipline: str = policy("easy", "local", "Local scheduler:", name="policy")
    processors: int | None = whole(
        "Processors of the site.", low=1, unset="what the log says, else its largest job"
    )
    overrun: Overrun = choice(
        Overrun.RAISE,
        {one.value: one for one in Overrun},
        "A job longer than its estimate: raise the estimate, kill the job at it, or extend: let it"
        " run on, expected to end at any moment.",
    )
    until: int | None = whole(
        "Stop at this simulated time; show running and waiting jobs.",
        low=0,
        metavar="SECONDS",
        unset="the last end",
    )
    changes: tuple[Change, ...] = ()


class Replay:
    """One replay. `interrupt` may be called at any time, by a signal handler for instance. Jobs
    that have ended by then are kept."""

    def __init__(
        self,
        setting: ReplaySetting,
        *,
        jobs_out: Path | None = None,
        series: Series | None = None,
    ) -> None:
        self._setting = setting
        self._jobs_out = jobs_out
        self._series = series
        self._log = Log(setting.path, setting.form)
        self._outcomes = OutcomeLog() if is_log(jobs_out) else None
        self._report: Callable[[float], None] = lambda _done: None
        self.is_interrupted = False

    def interrupt(self) -> None:
        """Stop soon."""
        self.is_interrupted = True

    def run(self, report: Callable[[float], None]) -> dict[str, Any]:
        """Run, and return the figures, for JSON. `report` receives the number of bytes read of the
        log. Raises WorkloadError for a bad log, ConfigError for changes that are impossible."""
        self._report = report
        setting = self._setting
        processors, said_by = setting.processors, "--processors"
        if processors is None:
            processors, said_by = machine(self._log, self._log.header())
        check_changes(setting.changes, processors)
        arrivals = Arrivals(self._log, processors=processors, overrun=setting.overrun)
        try:
            found = self._replay(arrivals.blocks(), processors)
        except DisorderError:
            if self._outcomes is not None:
                self._outcomes = OutcomeLog()  # without those of the broken try
            found = self._replay(arrivals.sorted_blocks(), processors)
        summary = arrivals.summary
        if self._outcomes is not None and self._jobs_out is not None:
            note = f"replayed by koala simulate trace, policy {setting.discipline}"
            note += f", {processors} processors, overrun {setting.overrun.value}"
            self._outcomes.write(self._jobs_out, self._log, [note], shift_s=arrivals.shift)
        return {
            "file": setting.path.name,
            "policy": str(setting.discipline),
            "overrun": setting.overrun.value,
            "processors": processors,
            "processors_from": said_by,
            "read": summary.read,
            "dropped": summary.dropped,
            "changed": summary.changed,
            "first_submit": arrivals.shift,
            **found,
        }

    # How --------------------------------------------------------------------------------------

    def _replay(self, blocks: Iterator[list[Arrival]], processors: int) -> dict[str, Any]:
        scheduler = local_scheduler(self._setting.discipline)
        with self._rows() as rows:
            run = TraceRun(
                chain.from_iterable(blocks),
                processors=processors,
                discipline=scheduler,
                owners=None if isinstance(scheduler, Discipline) else self._log.owners(),
                changes=self._setting.changes,
                rows=rows,
                series=self._series,
                poll=self._poll,
            )
            run.go(self._setting.until)
        return run.document()

    def _poll(self) -> bool:
        self._report(self._log.position)
        return self.is_interrupted

    @contextmanager
    def _rows(self) -> Iterator[JobRows | None]:
        """Write the file of jobs, whole or not at all."""
        if self._jobs_out is None or self._outcomes is not None:
            yield self._outcomes
            return
        with (
            atomic_file(self._jobs_out) as part,
            part.open("w", encoding="ascii", newline="\n") as file,
        ):
            file.write(COLUMNS)
            yield CsvRows(file)
