"""Options, value parsers, progress and output that all simulations share."""

from __future__ import annotations

import importlib
import json
import signal
import sys
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from math import isfinite, nan
from pathlib import Path
from tempfile import TemporaryDirectory
from types import FrameType
from typing import TYPE_CHECKING, Annotated, Any, TypeVar

import typer

from koala.cli.coercion import SENSIBLE, is_sensible
from koala.errors import ConfigError, KoalaError, WorkloadError
from koala.runtime.atomic_file import check_whole, whole_file

if TYPE_CHECKING:
    from koala.sim.replication import Replications

Outcome = TypeVar("Outcome")

Seed = Annotated[int, typer.Option(help="Seed of all random streams.", min=0)]
Reps = Annotated[int, typer.Option(help="Replications, with seeds SEED, SEED + 1, ...", min=1)]
Workers = Annotated[int, typer.Option(help="Parallel processes; 0: one a core.", min=0)]
JSON = Annotated[bool, typer.Option("--json", help="Print the result as JSON.")]
JobsOut = Annotated[
    Path | None, typer.Option(metavar="FILE.csv", help="Write a line for each job to this file.")
]
Plot = Annotated[
    Path | None, typer.Option(metavar="FILE.svg", help="Draw the result (.svg, .png or .pdf).")
]

PICTURES = (".svg", ".png", ".pdf")
STANDARD_INPUT = "-"
INTERRUPTED = 130
JOBS_MAX = 100_000_000
"""Upper bound of the jobs of one run, which are all in memory."""
PROCESSORS_MAX = 10_000_000
SITES_MAX = 10_000


def numbers(option: str, text: str, *, separator: str = ",") -> tuple[float, ...]:
    """Parse a list such as 25,25,25,25. Raises ConfigError naming the option and the value."""
    try:
        found = tuple(float(word) for word in text.split(separator))
    except ValueError:
        found = (nan,)
    if not all(isfinite(one) and is_sensible(one) for one in found):
        example = separator.join(("1", "2"))
        raise ConfigError(f"--{option} {text}: allowed are numbers such as {example} ({SENSIBLE})")
    return found


def bounds(option: str, text: str) -> tuple[int, int]:
    """Parse a range of whole numbers such as 1:8, ends included. Raises ConfigError."""
    low, _, high = text.partition(":")
    try:
        found = int(low), int(high)
    except ValueError:
        found = 1, 0
    if not 0 <= found[0] <= found[1]:
        raise ConfigError(f"--{option} {text}: allowed is LOW:HIGH, for instance 1:8")
    return found


def sites(option: str, text: str) -> tuple[int, ...]:
    """Parse the processors of each site: 4x32 is four sites of 32; 128,3x24 one of 128 and three
    of 24. Raises ConfigError."""
    found: list[int] = []
    for word in text.split(","):
        count, _, size = word.rpartition("x")
        try:
            found += [int(size)] * min(int(count) if count else 1, SITES_MAX + 1)
        except ValueError:
            found.append(0)
        if len(found) > SITES_MAX:
            break
    if not found or min(found) < 1 or max(found) > PROCESSORS_MAX or len(found) > SITES_MAX:
        raise ConfigError(
            f"--{option} {text}: allowed are processors of each site, for instance 4x32 or"
            f" 128,3x24: at most {SITES_MAX} sites of at most {PROCESSORS_MAX} each"
        )
    return tuple(found)


def one_of(option: str, text: str, allowed: tuple[str, ...]) -> str:
    """Match a word against the allowed ones, in any case. Raises ConfigError."""
    for word in allowed:
        if word.lower() == text.lower():
            return word
    raise ConfigError(f"--{option} {text}: allowed are {', '.join(allowed)}")


def check_outputs(jobs_out: Path | None, plot: Path | None = None) -> None:
    """Check before a long run that its output files can be written. Raises ConfigError.

    Their content stays until they are written.
    """
    if jobs_out is not None:
        check_output("jobs-out", jobs_out)
    if plot is not None:
        if plot.suffix not in PICTURES:
            names = ", ".join(f"*{suffix}" for suffix in PICTURES)
            raise ConfigError(f"--plot {plot}: allowed are files named {names}")
        check_output("plot", plot)
        # The slow import happens now: after Ctrl-C the user waits for the picture.
        importlib.import_module("matplotlib.figure")


def check_output(option: str, path: Path) -> None:
    """Check that a file can be written; its content stays. Raises ConfigError."""
    try:
        check_whole(path)
    except KoalaError as error:
        raise ConfigError(f"--{option} {error}") from None


@contextmanager
def jobs_file(path: Path | None) -> Iterator[Path | None]:
    """Yield the temporary file of the first replication's jobs, None without --jobs-out."""
    if path is None:
        yield None
        return
    with whole_file(path) as part:
        yield part


def keep_jobs(part: Path | None, jobs_out: Path | None, *, is_whole: bool) -> None:
    """Discard the jobs of an unfinished replication; the older file stays."""
    if part is None or is_whole or part == jobs_out:
        return
    part.unlink()
    print(f"interrupted: no jobs are written to {jobs_out}", file=sys.stderr)


def check_distinct(read: Iterable[Path | None], written: Mapping[str, Path | None]) -> None:
    """Check that no output file is also an input file or another output. Raises ConfigError.

    A log that is named twice by mistake would be lost.
    """
    used = {path.resolve() for path in read if path is not None}
    for option, path in written.items():
        if path is None:
            continue
        if path.resolve() in used:
            raise ConfigError(f"--{option} {path}: allowed is a file that nothing else here names")
        used.add(path.resolve())


def is_rereadable(log: Path) -> bool:
    """True unless the log is a pipe. A missing file counts as rereadable: its reader reports it."""
    return str(log) != STANDARD_INPUT and (log.is_file() or log.is_dir() or not log.exists())


@contextmanager
def rereadable(log: Path) -> Iterator[Path]:
    """Yield a file that can be read twice (header, then jobs): the log, or a temporary copy of a
    pipe's content."""
    from koala.workload import logs

    if is_rereadable(log):
        yield log
        return
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


def show(document: Mapping[str, Any], *, as_json: bool, text: Callable[[], str]) -> None:
    """Print the result, as JSON or as text."""
    print(json.dumps(document, indent=2, allow_nan=False) if as_json else text())


def replications(
    run: Callable[[int], Outcome], seed: int, reps: int, workers: int
) -> Replications[int, Outcome]:
    """Run `reps` replications with seeds from `seed` on, with a progress bar.

    0 workers means one a core. After an interrupt, print how many have finished and return those.
    Raises typer.Exit if none has.
    """
    from koala.cli.render.progress_bar import progress
    from koala.sim.replication import replicate

    with progress("replications", reps) as update:
        done = replicate(run, range(seed, seed + reps), workers=workers, progress=update)
    if done.is_interrupted:
        print(f"interrupted: {len(done.finished)} of {reps} replications", file=sys.stderr)
    if not done.finished:
        raise typer.Exit(INTERRUPTED)
    return done
