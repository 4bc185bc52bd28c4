"""Files of the jobs that a replay ran: CSV, and a log in SWF for other tools."""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import IO, NamedTuple, Protocol

from koala.errors import ConfigError
from koala.runtime.atomic_file import whole_file
from koala.sim.trace.tally import SLOWDOWN_BOUND_S, Ended
from koala.workload import swf
from koala.workload.logs import ALLOCATED_AT, NUMBER_AT, RUN_AT, WHOLE, Log

COLUMNS = "job,submit,start,end,processors,wait,run,estimate,bounded_slowdown,status\n"
WAIT_AT, STATUS_AT, PARTITION_AT = 2, 10, 15
_FAILED = 0
"""Status in SWF of a job that was killed."""
_KEPT = ("Computer", "Installation", "UnixStartTime", "TimeZone", "TimeZoneString", "MaxProcs")
"""Header entries that also hold for the outcome."""


class JobRows(Protocol):
    """Receiver of the jobs of a replay."""

    def add(self, ended: Sequence[Ended], cut: Sequence[Ended]) -> None:
        """Add jobs that ended, and jobs that failing processors ended."""


class CsvRows:
    """Writer of a line of CSV for each job."""

    def __init__(self, file: IO[str]) -> None:
        self._file = file

    def add(self, ended: Sequence[Ended], cut: Sequence[Ended]) -> None:
        """See JobRows. No function is called for a job, since that would cost as much as the
        line."""
        least = SLOWDOWN_BOUND_S
        for jobs, status in ((ended, "ended"), (cut, "killed")):
            self._file.writelines(
                [
                    f"{job[1]},{job[0]},{start},{end},{job[2]},{start - job[0]},{end - start},"
                    f"{job[4]},{slowdown if slowdown > 1 else 1.0:.4f},{status}\n"
                    for end, _, job, start in jobs
                    for slowdown in [
                        (end - job[0]) / (end - start if end - start > least else least)  # noqa: FURB136
                    ]
                ]
            )


class JobOutcome(NamedTuple):
    """Outcome of a job of a log. Times in seconds; `partition` is -1 for several, or none."""

    wait_s: float
    run_s: float
    processors: int
    is_killed: bool = False
    partition: int = -1


class OutcomeLog:
    """Outcome of a replay as a log in SWF: the lines of the log that was read, with the waits, run
    times and statuses of the replay. Jobs that did not end in it are left out."""

    def __init__(self) -> None:
        self._outcomes: dict[int, list[JobOutcome]] = defaultdict(list)

    def add(self, ended: Sequence[Ended], cut: Sequence[Ended]) -> None:
        """See JobRows."""
        for jobs, is_killed in ((ended, False), (cut, True)):
            for end, _, job, start in jobs:
                self.note(job[1], JobOutcome(start - job[0], end - start, job[2], is_killed))

    def note(self, number: int, outcome: JobOutcome) -> None:
        """Note the outcome of the job with a number; of several jobs with one number in order."""
        self._outcomes[number].append(outcome)

    def write(self, path: Path, log: Log, notes: Iterable[str]) -> None:
        """Write the file, whole or not at all. `notes` become comments."""
        known = log.header().entries
        comments = [
            "Version: 2.2",
            *[f"{key}: {known[key]}" for key in _KEPT if key in known],
            *[f"Note: {note}" for note in notes],
        ]
        with whole_file(path) as part, part.open("w", encoding="ascii", newline="\n") as file:
            swf.write(file, self._lines(log), comments=map(_ascii, comments))

    def _lines(self, log: Log) -> Iterator[list[float]]:
        left = {number: iter(outcomes) for number, outcomes in self._outcomes.items()}
        words: dict[tuple[int, str], int] = {}
        for fields in log.lines():
            outcome = next(left.get(int(float(fields[NUMBER_AT])), iter(())), None)
            if outcome is None:
                continue
            line = [_number(at, text, words) for at, text in enumerate(fields[: len(swf.FIELDS)])]
            is_cut = outcome.is_killed or 0 <= outcome.run_s < int(line[RUN_AT])
            line[WAIT_AT], line[RUN_AT] = _whole(outcome.wait_s), _whole(outcome.run_s)
            line[ALLOCATED_AT] = outcome.processors
            line[STATUS_AT] = _FAILED if is_cut else line[STATUS_AT]
            line[PARTITION_AT] = outcome.partition
            if log.format is not swf.FORMAT:
                line[PARTITION_AT + 1 :] = [-1, -1]  # GWF has other fields there
            yield line


def is_log(path: Path | None) -> bool:
    """Return True if jobs are to be written in SWF. Raises ConfigError for other forms of logs."""
    if path is None:
        return False
    if path.suffix in (".gz", ".gwf"):
        raise ConfigError(f"--jobs-out {path}: allowed are files named *.csv and *.swf")
    return path.suffix == ".swf"


def _number(at: int, text: str, words: dict[tuple[int, str], int]) -> float:
    """Read a field; words, such as users in GWF, become numbers in the order in which they come."""
    if WHOLE.fullmatch(text):
        return int(text)
    try:
        return float(text)
    except ValueError:
        return words.setdefault((at, text), sum(one == at for one, _ in words) + 1)


def _whole(seconds: float) -> float:
    """Return whole seconds as such, and others with two decimals."""
    return int(seconds) if float(seconds).is_integer() else round(seconds, 2)


def _ascii(text: str) -> str:
    return re.sub(r"[^\x20-\x7e]", "?", text)
