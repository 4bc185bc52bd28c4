"""What all simulations share: options, parsing of their words, progress, and output."""

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
Workers = Annotated[int, typer.Option(help="Processes at once; 0: one a core.", min=0)]
JSON = Annotated[bool, typer.Option("--json", help="The result as JSON on standard output.")]
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
"""Of one run: all of them are in memory."""
PROCESSORS_MAX = 10_000_000
SITES_MAX = 10_000


def numbers(option: str, text: str, *, separator: str = ",") -> tuple[float, ...]:
    """A list such as 25,25,25,25. Raises ConfigError that names the option and the value."""
    try:
        found = tuple(float(word) for word in text.split(separator))
    except ValueError:
        found = (nan,)
    if not all(isfinite(one) and is_sensible(one) for one in found):
        example = separator.join(("1", "2"))
        raise ConfigError(f"--{option} {text}: allowed are numbers such as {example} ({SENSIBLE})")
    return found


def bounds(option: str, text: str) -> tuple[int, int]:
    """A range of whole numbers such as 1:8, its ends included."""
    low, _, high = text.partition(":")
    try:
        found = int(low), int(high)
    except ValueError:
        found = 1, 0
    if not 0 <= found[0] <= found[1]:
        raise ConfigError(f"--{option} {text}: allowed is LOW:HIGH, for instance 1:8")
    return found


def sites(option: str, text: str) -> tuple[int, ...]:
    """Processors of each site: 4x32 is four sites of 32; 128,3x24 one of 128 and three of 24."""
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
    """A word of a list, in any case."""
    for word in allowed:
        if word.lower() == text.lower():
            return word
    raise ConfigError(f"--{option} {text}: allowed are {', '.join(allowed)}")


def begin_files(jobs_out: Path | None, plot: Path | None = None) -> None:
    """Look at the files that a long run will write: an error that they bring comes before the run.
    What they hold stays until they are written."""
    if jobs_out is not None:
        begin_file("jobs-out", jobs_out)
    if plot is not None:
        if plot.suffix not in PICTURES:
            names = ", ".join(f"*{suffix}" for suffix in PICTURES)
            raise ConfigError(f"--plot {plot}: allowed are files named {names}")
        begin_file("plot", plot)
        # Drawing takes this long anyway, and after Ctrl-C somebody waits.
        importlib.import_module("matplotlib.figure")


def begin_file(option: str, path: Path) -> None:
    """Refuse a file that could not be written at the end of a long run; what it holds stays."""
    try:
        check_whole(path)
    except KoalaError as error:
        raise ConfigError(f"--{option} {error}") from None


@contextmanager
def jobs_file(path: Path | None) -> Iterator[Path | None]:
    """Give what the first replication writes its jobs to, if they are wanted."""
    if path is None:
        yield None
        return
    with whole_file(path) as part:
        yield part


def keep_jobs(part: Path | None, jobs_out: Path | None, *, is_whole: bool) -> None:
    """Give the jobs of a replication up that was not finished; the older file stays."""
    if part is None or is_whole or part == jobs_out:
        return
    part.unlink()
    print(f"interrupted: no jobs are written to {jobs_out}", file=sys.stderr)


def keep_apart(read: Iterable[Path | None], written: Mapping[str, Path | None]) -> None:
    """Refuse to write a file that the same command reads, or one twice: a log that somebody named
    twice by mistake would be lost."""
    taken = {path.resolve() for path in read if path is not None}
    for option, path in written.items():
        if path is None:
            continue
        if path.resolve() in taken:
            raise ConfigError(f"--{option} {path}: allowed is a file that nothing else here names")
        taken.add(path.resolve())


def can_be_read_again(log: Path) -> bool:
    """Whether another run finds the same jobs there: not so in a pipe. What is not there at all is
    said by whoever reads it."""
    return str(log) != STANDARD_INPUT and (log.is_file() or log.is_dir() or not log.exists())


@contextmanager
def kept(log: Path) -> Iterator[Path]:
    """A file that can be read as often as a replay has to (once for the header, once for the jobs):
    the log itself, or a copy of what a pipe gives, which is there for as long as this lasts."""
    from koala.workload import logs

    if can_be_read_again(log):
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
        except WorkloadError as error:  # of the log, as who called named it
            told = copy.name if is_standard_input else str(log)
            raise WorkloadError(str(error).replace(str(copy), told)) from error


@contextmanager
def on_interrupt(stop: Callable[[], None]) -> Iterator[None]:
    """Ctrl-C calls `stop`, so that what runs can end between two steps and say how far it came."""

    def interrupt(_signal: int, _frame: FrameType | None) -> None:
        stop()

    before = signal.signal(signal.SIGINT, interrupt)
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, before)


def show(document: Mapping[str, Any], *, as_json: bool, text: Callable[[], str]) -> None:
    """The result on standard output."""
    print(json.dumps(document, indent=2, allow_nan=False) if as_json else text())


def replications(
    run: Callable[[int], Outcome], seed: int, reps: int, workers: int
) -> Replications[int, Outcome]:
    """`run` with `reps` seeds from `seed` on, with a bar; 0 workers: one a core. After an interrupt
    those that were finished, and a line that says how many. Raises typer.Exit when none was."""
    from koala.cli.render.progress_bar import progress
    from koala.sim.replication import replicate

    with progress("replications", reps) as tell:
        done = replicate(run, range(seed, seed + reps), workers=workers, progress=tell)
    if done.is_interrupted:
        print(f"interrupted: {len(done.finished)} of {reps} replications", file=sys.stderr)
    if not done.finished:
        raise typer.Exit(INTERRUPTED)
    return done
