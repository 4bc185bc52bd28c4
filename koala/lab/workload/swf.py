"""The Standard Workload Format of the Parallel Workloads Archive: 18 numbers a job, -1 where
nothing is known; comments begin with a semicolon (Chapin et al., JSSPP 1999)."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence
from typing import IO

from koala.lab.workload.logs import SECONDS_AT, WHOLE, WHOLE_AT, Columns, Format, Log

FIELDS = (
    "job number", "submit time", "wait time", "run time", "allocated processors",
    "average CPU time", "used memory", "requested processors", "requested time",
    "requested memory", "status", "user", "group", "executable", "queue", "partition",
    "preceding job", "think time",
)  # fmt: skip


def _pattern() -> re.Pattern[bytes]:
    """Build the pattern of a line with a plain job; the relevant numbers are whole and captured. It
    never backtracks over the same characters, so it is as quick as splitting. Numbers with more
    digits than a float has may be rounded or infinite: these need the careful reader."""
    plain = [rb"-?+\d{1,15}+(?:\.\d*+)?+"] * len(FIELDS)
    for at in (*WHOLE_AT, *SECONDS_AT):
        plain[at] = rb"(-?+\d{1,15}+)"
    return re.compile(rb"^[ \t]*+" + rb"[ \t]++".join(plain) + rb"[ \t]*+\r?$", re.MULTILINE)


_JOB = _pattern()


def _quickly(block: bytes) -> Columns | None:
    """Read all lines at once, if each of them is a plain job."""
    found = _JOB.findall(block)
    if len(found) != block.count(b"\n"):
        return None
    numbers, submits, runs, allocated, requested, estimates = (
        [*map(int, column)] for column in zip(*found, strict=True)
    )
    return Columns(numbers, submits, runs, allocated, requested, estimates, cut=0)


FORMAT = Format(
    name="swf", fields=FIELDS, comment=";", numbers=len(FIELDS), quickly=_quickly
)  # fmt: skip


def jobs(log: Log) -> Iterator[tuple[float, ...]]:
    """Yield all 18 numbers of all jobs; those without a point are whole."""
    for fields in log.lines():
        yield tuple(int(text) if WHOLE.fullmatch(text) else float(text) for text in fields)


def write(file: IO[str], jobs: Iterable[Sequence[float]], *, comments: Iterable[str] = ()) -> None:
    """Write a log. `jobs` reads back what was written."""
    file.writelines(f"; {comment}\n" for comment in comments)
    for job in jobs:
        assert len(job) == len(FIELDS), job
        file.write(" ".join(map(repr, job)) + "\n")
