"""Replay from a log to figures; it may be interrupted, and continue in another process."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from itertools import chain, islice
from pathlib import Path
from typing import IO, Any

from koala.common.runtime.atomic_file import atomic_file, write_atomically
from koala.errors import ConfigError
from koala.lab.sim.log_replay.driver import ReplayDriver
from koala.lab.sim.log_replay.events import Change, check_changes
from koala.lab.sim.log_replay.job_files import COLUMNS, CsvRows, OutcomeLog, is_log
from koala.lab.sim.log_replay.run import TraceRun
from koala.lab.sim.log_replay.series import Series
from koala.lab.workload.arrivals import Arrival, Arrivals, DisorderError, Overrun, machine
from koala.lab.workload.logs import Format, Log
from koala.queue_model import Discipline, local_scheduler

_VERSION = 3
PIECE_BYTES = 1 << 20


@dataclass(frozen=True, slots=True, kw_only=True)
class ReplaySetting:
    """Parameters that determine the result."""

    path: Path
    form: Format
    discipline: str
    """Name of the local scheduler (`koala.queue_model.local_schedulers`)."""
    processors: int | None = None
    """None: as in the header of the log, or else the largest job's."""
    overrun: Overrun = Overrun.RAISE
    changes: tuple[Change, ...] = ()
    until: int | None = None

    def identity(self) -> dict[str, Any]:
        """Return the parameters that a resumed replay must share; `until` may differ."""
        return {
            "log": _digest(self.path),
            "format": self.form.name,
            "policy": str(self.discipline),
            "processors": self.processors,
            "overrun": self.overrun.value,
            "events": [change.document() for change in self.changes],
        }


class Replay:
    """One replay. `interrupt` may be called at any time, by a signal handler for instance. Jobs
    that have ended by then are kept; with a checkpoint file the whole state is."""

    def __init__(
        self,
        setting: ReplaySetting,
        *,
        jobs_out: Path | None = None,
        checkpoint: Path | None = None,
        series: Series | None = None,
    ) -> None:
        self._setting = setting
        self._jobs_out = jobs_out
        self._checkpoint = checkpoint
        self._series = series
        self._log = Log(setting.path, setting.form)
        self._outcomes = OutcomeLog() if is_log(jobs_out) else None
        if self._outcomes is not None and checkpoint is not None:
            raise ConfigError(f"--jobs-out {jobs_out} with --checkpoint (expected *.csv)")
        self._report: Callable[[float], None] = lambda _done: None
        self.is_interrupted = False

    def interrupt(self) -> None:
        """Stop soon."""
        self.is_interrupted = True

    def run(self, report: Callable[[float], None], *, is_resumed: bool = False) -> dict[str, Any]:
        """Run, and return the figures, for JSON. `report` receives the number of bytes read of the
        log. Raises WorkloadError for a bad log, ConfigError when it cannot be resumed."""
        self._report = report
        setting = self._setting
        kept = self._read_checkpoint() if is_resumed else None
        processors, said_by = setting.processors, "--processors"
        if processors is None:
            processors, said_by = machine(self._log, self._log.header())
        check_changes(setting.changes, processors)
        arrivals = Arrivals(self._log, processors=processors, overrun=setting.overrun)
        try:
            found = self._replay(arrivals.blocks(), processors, kept)
        except DisorderError:
            if self._outcomes is not None:
                self._outcomes = OutcomeLog()  # without those of the broken try
            found = self._replay(arrivals.sorted_blocks(), processors, kept)
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

    def _replay(
        self, blocks: Iterator[list[Arrival]], processors: int, kept: Mapping[str, Any] | None
    ) -> dict[str, Any]:
        """Replay from the beginning, or from the checkpoint."""
        arrivals = chain.from_iterable(blocks)
        arrived = kept["course"]["run"]["arrived"] if kept is not None else 0
        scheduler = local_scheduler(self._setting.discipline)
        run = TraceRun(
            islice(arrivals, arrived, None),
            processors=processors,
            discipline=scheduler,
            owners=None if isinstance(scheduler, Discipline) else self._log.owners(),
        )
        written = None
        with self._rows(kept) as rows:
            driver = ReplayDriver(
                run,
                changes=self._setting.changes,
                rows=self._outcomes if rows is None else CsvRows(rows),
                series=self._series,
                poll=self._poll,
            )
            if kept is not None:
                driver.restore(kept["course"])
            driver.go(self._setting.until)
            if rows is not None and self._checkpoint is not None:
                written = rows.tell()
        # After the rows: those that a checkpoint counts are there.
        if self._checkpoint is not None and driver.stopped_at is not None:
            self._write_checkpoint(self._checkpoint, driver, written)
        return driver.document()

    def _poll(self) -> bool:
        self._report(self._log.position)
        return self.is_interrupted

    @contextmanager
    def _rows(self, kept: Mapping[str, Any] | None) -> Iterator[IO[str] | None]:
        """Write the file of jobs, starting with its content at the checkpoint."""
        path = self._jobs_out
        if path is None or self._outcomes is not None:
            yield None
            return
        with atomic_file(path) as part:
            if kept is not None and part != path:
                _copy(path, part, size=kept["rows"])
            mode = "w" if kept is None else "r+"
            with part.open(mode, encoding="ascii", newline="\n") as rows:
                if kept is None:
                    rows.write(COLUMNS)
                else:
                    rows.truncate(kept["rows"])
                    rows.seek(kept["rows"])
                yield rows

    # Checkpoints ------------------------------------------------------------------------------

    def _write_checkpoint(self, path: Path, driver: ReplayDriver, written: int | None) -> None:
        """Save the state, and the length of the file of jobs that belongs to it."""
        kept = json.dumps(
            {
                "setting": self._setting.identity(),
                "rows": written,
                "course": driver.kept(),
            }
        )
        head = json.dumps({"koala_checkpoint": _VERSION, "digest": _digest_of(kept)})
        write_atomically(path, f"{head}\n{kept}\n")

    def _read_checkpoint(self) -> dict[str, Any]:
        path = self._checkpoint
        assert path is not None
        if path.exists() and not path.is_file():  # a device has no end
            raise ConfigError(f"{path} is not a checkpoint of a replay")
        try:
            first, _, rest = path.read_text(encoding="ascii").partition("\n")
            head = json.loads(first)
            version = head["koala_checkpoint"]
        except OSError as error:
            raise ConfigError(f"{path}: cannot be read: {error.strerror}") from error
        except (ValueError, LookupError, TypeError, RecursionError) as error:
            raise ConfigError(f"{path} is not a checkpoint of a replay") from error
        if version != _VERSION:
            raise ConfigError(f"{path}: is of version {str(version)[:40]!r} (expected {_VERSION})")
        written = rest.removesuffix("\n")
        if head.get("digest") != _digest_of(written):
            text = f"{path}: is damaged: it does not hold what was written; begin the replay again"
            raise ConfigError(text)
        kept: dict[str, Any] = json.loads(written)
        before = kept["setting"]
        for name, value in self._setting.identity().items():
            if before[name] != value:
                text = f"{path}: the replay had {name} = {before[name]}, not {value}"
                raise ConfigError(text)
        until, now = self._setting.until, kept["course"]["run"]["now"]
        if until is not None and until < now:
            raise ConfigError(f"{path}: the replay is at {now} s already, after --until {until}")
        self._check_files(path, kept)
        return kept

    def _check_files(self, path: Path, kept: Mapping[str, Any]) -> None:
        """Check that the files written so far exist, so that they can be continued."""
        if (kept["rows"] is None) != (self._jobs_out is None):
            word = "without" if kept["rows"] is None else "with"
            raise ConfigError(f"{path}: the replay was {word} --jobs-out; it must be resumed so")
        rows = self._jobs_out
        if rows is not None and not (rows.exists() and rows.stat().st_size >= kept["rows"]):
            text = f"has less than the {kept['rows']} bytes that were written before"
            raise ConfigError(f"--jobs-out {rows}: {text}")
        if (kept["course"]["series"] is None) != (self._series is None):
            word = "without" if kept["course"]["series"] is None else "with"
            raise ConfigError(f"{path}: the replay was {word} --plot; it must be resumed so")


def _copy(source: Path, copy: Path, *, size: int) -> None:
    """Copy the beginning of a file."""
    with source.open("rb") as old, copy.open("wb") as new:
        while size and (piece := old.read(min(size, PIECE_BYTES))):
            new.write(piece)
            size -= len(piece)


def _digest(path: Path) -> str:
    import hashlib  # noqa: PLC0415 - slow; only checkpoints need it

    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def _digest_of(text: str) -> str:
    import hashlib  # noqa: PLC0415 - as above

    return hashlib.sha256(text.encode("ascii")).hexdigest()
