"""Runs of a simulation, checks of files, progress and output that all simulations share."""

from __future__ import annotations

import csv
import importlib
import json
import signal
import sys
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from functools import partial
from math import isfinite
from pathlib import Path
from types import FrameType
from typing import TYPE_CHECKING, Any, NoReturn

import click

from koala.cli.arguments import STANDARD_INPUT
from koala.cli.output import is_json, note
from koala.common.runtime.atomic_file import atomic_file, check_writable
from koala.errors import ConfigError, KoalaError, WorkloadError

if TYPE_CHECKING:
    from koala.lab.sim.campaign.execution import Engine
    from koala.lab.sim.replication import Replications

INTERRUPTED = 130
PICTURES = (".svg", ".png", ".pdf")

REPS_FEW = 5


@dataclass(frozen=True, slots=True, kw_only=True)
class Runs:
    """Replications of a setting: how many and with which seeds, and where their results go."""

    seed: int
    reps: int
    workers: int
    on: str
    jobs_out: Path | None
    plot: Path | None

    @property
    def engine(self) -> Engine:
        """Engine that makes the runs. Raises ConfigError."""
        from koala.lab.engines import engine_of

        return engine_of(self.on, self.workers)

    @property
    def seeds(self) -> range:
        """A seed for each replication."""
        return range(self.seed, self.seed + self.reps)

    def replicate(
        self,
        simulate: Callable[..., Any],
        setting: object,
        *,
        columns: Sequence[str] = (),
    ) -> Replications[int, Any]:
        """Check the outputs, then run all replications, with a progress bar.

        With `columns`, `simulate` also takes a function that receives the outcome of each job, and
        --jobs-out writes those of the first replication. After an interrupt, print how many have
        finished and return those. Exit if none has.
        """
        from koala.common.runtime.progress_bar import progress
        from koala.lab.sim.campaign.execution import recorded, replicate_on

        engine = self.engine
        check_outputs(self.jobs_out, self.plot)
        first = self.seed if columns and self.jobs_out else None
        with progress("replications", self.reps) as update:
            run = partial(recorded, simulate, setting, first)
            done = replicate_on(engine, run, self.seeds, update)
        if done.is_interrupted:
            text = f"interrupted: {len(done.finished)} of {self.reps} replications"
            print(text, file=sys.stderr)
        if not done.finished:
            raise click.exceptions.Exit(INTERRUPTED)
        if self.jobs_out is not None and columns:
            jobs = {seed: jobs for seed, (_, jobs) in done.finished}.get(self.seed)
            if jobs is None:  # the older file stays
                print(f"interrupted: no jobs are written to {self.jobs_out}", file=sys.stderr)
            else:
                write_rows(self.jobs_out, columns, (map(_cell, job) for job in jobs))
        return replace(done, finished=tuple((seed, found) for seed, (found, _) in done.finished))

    def report(
        self,
        made: Replications[Any, Any],
        document: Mapping[str, Any],
        text: Callable[[], str],
        *,
        draw: Callable[[Path], None],
        jobs: Callable[[], tuple[Sequence[str], Iterable[Iterable[object]]]] | None = None,
    ) -> None:
        """Print the result, as JSON or as text. Write the jobs, a header and rows, and draw what is
        asked for; then exit as an interrupted command if `made` was interrupted."""
        show(document, text, replaced=made.replaced)
        if not is_json() and 1 < self.reps < REPS_FEW:
            note(f"{self.reps} replications give wide intervals; --reps 10 gives narrower ones")
        if self.jobs_out is not None and jobs is not None:
            write_rows(self.jobs_out, *jobs())
        if self.plot is not None:
            draw(self.plot)
        if made.is_interrupted:
            raise click.exceptions.Exit(INTERRUPTED)


def leave(progress: str) -> NoReturn:
    """Say how far an interrupted command has come, and end it."""
    print(f"interrupted{progress}", file=sys.stderr)
    raise click.exceptions.Exit(INTERRUPTED)


def check_outputs(jobs_out: Path | None, plot: Path | None = None) -> None:
    """Check before a long run that its output files can be written. Raises ConfigError.

    Their content stays until they are written.
    """
    if jobs_out is not None:
        check_output("jobs-out", jobs_out)
    if plot is not None:
        if plot.suffix not in PICTURES:
            names = ", ".join(f"*{suffix}" for suffix in PICTURES)
            raise ConfigError(f"--plot {plot} (expected a file named {names})")
        check_output("plot", plot)
        # The slow import happens now: after Ctrl-C the user waits for the picture.
        importlib.import_module("matplotlib.figure")


def make_out(folder: Path) -> Path:
    """Make the folder of --out, if it is missing. Raises ConfigError."""
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise ConfigError(f"--out {folder}: {error.strerror}") from None
    return folder


def check_output(option: str, path: Path) -> None:
    """Check that a file can be written; its content stays. Raises ConfigError."""
    try:
        check_writable(path)
    except KoalaError as error:
        raise ConfigError(f"--{option} {error}") from None


def _cell(value: object) -> object:
    return " ".join(map(str, value)) if isinstance(value, tuple) else value


def write_rows(path: Path, header: Sequence[str], rows: Iterable[Iterable[object]]) -> None:
    """Write a CSV file, whole or not at all."""
    with atomic_file(path) as part, part.open("w", encoding="utf-8", newline="") as file:
        lines = csv.writer(file, lineterminator="\n")
        lines.writerow(header)
        lines.writerows(rows)


def check_distinct(read: Iterable[Path | None], written: Mapping[str, Path | None]) -> None:
    """Check that no output file is also an input file or another output. Raises ConfigError.

    A log that is named twice by mistake would be lost.
    """
    used = {path.resolve() for path in read if path is not None}
    for name, path in written.items():
        if path is None:
            continue
        if path.resolve() in used:
            raise ConfigError(f"--{name} {path}: another option names the same file")
        used.add(path.resolve())


def is_rereadable(log: Path) -> bool:
    """Return True unless the log is a pipe. A missing file counts as rereadable: its reader reports
    it."""
    return str(log) != STANDARD_INPUT and (log.is_file() or log.is_dir() or not log.exists())


@contextmanager
def rereadable(log: Path) -> Iterator[Path]:
    """Yield a file that can be read twice (header, then jobs): the log, or a temporary copy of a
    pipe's content."""
    if is_rereadable(log):
        yield log
        return
    from tempfile import TemporaryDirectory

    from koala.lab.workload import logs

    is_standard_input = str(log) == STANDARD_INPUT
    with TemporaryDirectory(prefix="koala-") as folder:
        copy = Path(folder) / ("standard input" if is_standard_input else log.name)
        try:
            with copy.open("wb") as file:
                if is_standard_input:
                    logs.copy(sys.stdin.buffer, file, name=copy.name)
                else:
                    with log.open("rb") as pipe:
                        logs.copy(pipe, file, name=str(log))
        except OSError as error:
            raise ConfigError(f"{log}: cannot be read: {error.strerror}") from None
        try:
            yield copy
        except WorkloadError as error:  # names the copy: name the log instead
            named = copy.name if is_standard_input else str(log)
            raise WorkloadError(str(error).replace(str(copy), named)) from error


@contextmanager
def on_interrupt(stop: Callable[[], None]) -> Iterator[None]:
    """Call `stop` on Ctrl-C, so that a run ends between two steps and reports its progress."""

    def interrupt(_signal: int, _frame: FrameType | None) -> None:
        stop()

    before = signal.signal(signal.SIGINT, interrupt)
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, before)


def plain_rows(rows: Iterable[Mapping[str, Any]]) -> list[dict[str, Any]]:
    """Return rows for JSON, which has no infinity and no not-a-number."""
    return [
        {
            name: None if isinstance(value, float) and not isfinite(value) else value
            for name, value in row.items()
        }
        for row in rows
    ]


def show(
    document: Mapping[str, Any],
    text: Callable[[], str],
    replaced: Sequence[str] = (),
) -> None:
    """Print the result, as JSON or as text, and the policies that were `replaced` in its runs."""
    told = list(dict.fromkeys(replaced))
    if is_json():
        more = {"replaced_policies": told} if told else {}
        print(json.dumps({**document, **more}, indent=2, allow_nan=False))
    else:
        print("\n".join([text(), *told]))
