"""Files of the jobs that a replay ran: CSV, and a log in SWF for other tools."""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import IO, NamedTuple, Protocol

from koala.common.runtime.atomic_file import atomic_file
from koala.errors import ConfigError
from koala.lab.sim.log_replay.tally import SLOWDOWN_BOUND_S, Ended
from koala.lab.workload import swf
from koala.lab.workload.logs import ALLOCATED_AT, NUMBER_AT, RUN_AT, SUBMIT_AT, WHOLE, Log

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
        self._outcomes: dict[tuple[int, int], list[JobOutcome]] = defaultdict(list)

    def add(self, ended: Sequence[Ended], cut: Sequence[Ended]) -> None:
        """See JobRows."""
        for jobs, is_killed in ((ended, False), (cut, True)):
            for end, _, job, start in jobs:
                outcome = JobOutcome(start - job[0], end - start, job[2], is_killed)
                self.note(job[1], job[0], outcome)

    def note(self, number: int, submit_s: int, outcome: JobOutcome) -> None:
        """Note the outcome of a job by its number and instant in the replay: logs that were put
        together have several jobs with one number."""
        self._outcomes[number, submit_s].append(outcome)

    def write(self, path: Path, log: Log, notes: Iterable[str], *, shift_s: int) -> None:
        """Write the file, whole or not at all. `notes` become comments; `shift_s` is the instant in
        the log at which the replay begins."""
        known = log.header().entries
        comments = [
            "Version: 2.2",
            *[f"{key}: {known[key]}" for key in _KEPT if key in known],
            *[f"Note: {note}" for note in notes],
        ]
        with atomic_file(path) as part, part.open("w", encoding="ascii", newline="\n") as file:
            swf.write(file, self._lines(log, shift_s), comments=map(_ascii, comments))

    def _lines(self, log: Log, shift_s: int) -> Iterator[list[float]]:
        left = {key: iter(outcomes) for key, outcomes in self._outcomes.items()}
        words: dict[int, dict[str, int]] = defaultdict(dict)
        for fields in log.lines():
            key = int(float(fields[NUMBER_AT])), int(float(fields[SUBMIT_AT])) - shift_s
            outcome = next(left.get(key, iter(())), None)
            if outcome is None:
                continue
            line = [_number(text, words[at]) for at, text in enumerate(fields[: len(swf.FIELDS)])]
            run_s = _whole(outcome.run_s)  # a difference of instants: 29.999999996 for 30
            is_cut = outcome.is_killed or 0 <= run_s < int(line[RUN_AT])
            line[WAIT_AT], line[RUN_AT] = _whole(outcome.wait_s), run_s
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
        raise ConfigError(f"--jobs-out {path} (expected a file named *.csv or *.swf)")
    return path.suffix == ".swf"


def _number(text: str, words: dict[str, int]) -> float:
    """Read a field; words, such as users in GWF, become numbers in the order in which they come."""
    if WHOLE.fullmatch(text):
        return int(text)
    try:
        return float(text)
    except ValueError:
        return words.setdefault(text, len(words) + 1)


def _whole(seconds: float) -> float:
    """Return whole seconds as such, and others with two decimals."""
    rounded = round(float(seconds), 2)
    return int(rounded) if rounded.is_integer() else rounded


def _ascii(text: str) -> str:
    return re.sub(r"[^\x20-\x7e]", "?", text)
