"""Records in the output of `sacct --parsable2`, with any columns in any order.

Lines are rows of fields with `|` between; the first one has the names. Needed are JobID (or
JobIDRaw), Submit, Start, End, State and AllocCPUS (or NCPUS, or AllocTRES); of use are Cluster,
Eligible, Timelimit (or TimelimitRaw), Elapsed (or ElapsedRaw), User and NodeList.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from datetime import tzinfo
from functools import partial
from itertools import chain, combinations_with_replacement, islice

from koala.common.protocol.names import SITE
from koala.errors import WorkloadError
from koala.lab.twin.instants import (
    UNLIMITED,
    Readings,
    column,
    duration_s,
    instant,
    ordered,
    whole,
)
from koala.lab.twin.records import Note, Read, Record, Skip, Skipped

NEEDED = (
    ("JobID", "JobIDRaw"),
    ("Submit",),
    ("Start",),
    ("End",),
    ("State",),
    ("AllocCPUS", "NCPUS", "AllocTRES"),
)
_NEVER_RAN = ("PENDING", "REVOKED")  # revoked: another cluster of the federation ran the job
FREE = ("JobName", "Comment", "AdminComment", "SystemComment", "WorkDir", "SubmitLine", "WCKey")
"""Columns whose text can hold the separator."""
COMMAND = (
    "SLURM_TIME_FORMAT=%s sacct --allusers --allclusters --duplicates --parsable2"
    " --starttime 2026-10-01 --endtime 2026-11-01 --format=JobID,Cluster,User,Submit,Eligible,"
    "Start,End,Elapsed,State,AllocCPUS,Timelimit,NodeList"
)
WAYS_MAX = 1000
"""Ways to read a line with separators in free texts that are tried."""
SHOWN_MAX = 60
"""Characters of a wrong first line that are shown."""
_REQUEUED = ("REQUEUED", "PREEMPTED", "NODE_FAIL")
_FAILED = ("FAILED", "TIMEOUT", "OUT_OF_MEMORY", "BOOT_FAIL", "DEADLINE")
_JOB = re.compile(r"\d+([_+.].*)?")
_CPU = re.compile(r"(?:^|,)cpu=([^,]*)")
_NOWHERE = "None assigned"
"""NodeList of a job that got no node; older versions give such a job the processors that
it asked for, and the instant of its end as that of its start."""


def read(lines: Iterable[str], *, source: str, site: str, zone: tzinfo | None) -> Iterator[Read]:
    """Read the jobs. `site` is that of lines without a Cluster. Raises WorkloadError if the first
    line does not name the columns."""
    names: list[str] = []
    for number, line in enumerate(lines, start=1):
        text = line.rstrip("\r\n")
        if not text.strip():
            continue
        if not names:
            names = _header(text, source)
            continue
        if _is_header(text.split("|")):  # of a file that was put together, maybe in another order
            names = text.split("|")
            continue
        fields = text.split("|")
        detail = f"{len(fields)} fields; the first line has {len(names)}"
        found = _read(_rows(fields, names), number, site, zone)
        yield found or Skipped(reason=Skip.MALFORMED, line=number, detail=detail)
    if not names:
        raise WorkloadError(f"{source}: is empty (expected the output of `{COMMAND}`)")


def _is_header(fields: list[str]) -> bool:
    return all(set(wanted) & set(fields) for wanted in NEEDED)


def _header(text: str, source: str) -> list[str]:
    names = text.split("|")
    for wanted in NEEDED:
        if not set(wanted) & set(names):
            raise WorkloadError(
                f"{source}, line 1: {_shortened(text)!r} names no column {' or '.join(wanted)}"
                f" (expected the output, with its first line, of `{COMMAND}`)"
            )
    return names


def _shortened(text: str) -> str:
    return text if len(text) <= SHOWN_MAX else f"{text[:SHOWN_MAX]}..."


def _rows(fields: list[str], names: list[str]) -> Iterator[dict[str, str]]:
    """Yield the ways to read the fields by name: more than one if free texts hold separators."""
    free = [place for place, name in enumerate(names) if name in FREE]
    more = len(fields) - len(names)
    if more < 0:
        return
    for places in islice(combinations_with_replacement(free, more), WAYS_MAX):
        joined, left = Counter(places), iter(fields)
        yield {name: "|".join(islice(left, 1 + joined[at])) for at, name in enumerate(names)}


def _read(ways: Iterable[dict[str, str]], line: int, site: str, zone: tzinfo | None) -> Read | None:
    """Read a line in the first way in which its values are of their columns; None if it has no
    way, or several and none fits."""
    found = [*islice(ways, 2)]
    if len(found) == 1:
        return _job(found[0], line, site, zone)
    for row in chain(found, ways):
        read = _job(row, line, site, zone)
        if _JOB.fullmatch(_name(row)) and not _is_malformed(read):
            return read
    return None


def _is_malformed(read: Read) -> bool:
    return isinstance(read, Skipped) and read.reason is Skip.MALFORMED


def _name(row: Mapping[str, str]) -> str:
    return row.get("JobID") or row.get("JobIDRaw") or ""


def _job(row: Mapping[str, str], line: int, site: str, zone: tzinfo | None) -> Read:
    job = _name(row)
    if "." in job:
        return Skipped(reason=Skip.STEP, line=line)
    words = row["State"].split()
    state = _whole_state(words[0]) if words else ""
    if not state or not job:
        return Skipped(reason=Skip.MALFORMED, line=line, detail="JobID or State is empty")
    where = row.get("Cluster") or site
    if not SITE.fullmatch(where):
        detail = f"job {job}: Cluster {where!r} (expected letters, digits, '.', '_' and '-')"
        return Skipped(reason=Skip.MALFORMED, line=line, detail=detail)
    try:
        limit_s, elapsed_s, processors = _limit_s(row), _elapsed_s(row), _processors(row)
        submit = _submit(row, zone)
        start = column("Start", partial(instant, zone=zone), row["Start"])
        end = column("End", partial(instant, zone=zone), row["End"])
    except ValueError as error:
        return Skipped(reason=Skip.MALFORMED, line=line, detail=f"job {job}: {error}")
    is_waiting = state in _NEVER_RAN or row.get("NodeList") == _NOWHERE
    if start is None or is_waiting:
        return Skipped(reason=Skip.NOT_STARTED, line=line)
    try:
        start_at, end_at, is_repeated = ordered(start, end, submit=submit, elapsed_s=elapsed_s)
    except ValueError:
        detail = f"job {job}: End {row['End']} is before Start {row['Start']}"
        return Skipped(reason=Skip.MALFORMED, line=line, detail=detail)
    if processors == 0:
        is_waiting = state == "CANCELLED" and (end_at is None or end_at == start_at)
        reason = Skip.NOT_STARTED if is_waiting else Skip.NO_PROCESSORS
        return Skipped(reason=reason, line=line)
    if submit is None:
        return Skipped(reason=Skip.MALFORMED, line=line, detail=f"job {job}: no Submit")
    return Record(
        site=where,
        job=job,
        user=row.get("User", ""),
        submit_at=min(submit[0], start_at),
        start_at=start_at,
        end_at=end_at,
        elapsed_s=elapsed_s,
        processors=processors,
        limit_s=limit_s,
        notes=frozenset(_notes(job, state, end_at, limit_s, is_repeated=is_repeated)),
    )


def _submit(row: Mapping[str, str], zone: tzinfo | None) -> Readings | None:
    """Return when the job could have started: a held or dependent job, and one with a begin time,
    waits for its user and not for processors until it is eligible."""
    submit = column("Submit", partial(instant, zone=zone), row["Submit"])
    eligible = column("Eligible", partial(instant, zone=zone), row.get("Eligible", ""))
    return max(submit, eligible) if submit and eligible else submit


def _whole_state(word: str) -> str:
    """Return a state that a narrow column has cut: OUT_OF_ME+ is OUT_OF_MEMORY."""
    if not word.endswith("+"):
        return word
    cut = word[:-1]
    known = ("CANCELLED", "COMPLETED", *_REQUEUED, *_FAILED)
    return next((state for state in known if state.startswith(cut)), cut)


def _limit_s(row: Mapping[str, str]) -> int | None:
    if "Timelimit" in row:
        return column("Timelimit", duration_s, row["Timelimit"])
    minutes = row.get("TimelimitRaw", "").strip()
    return None if minutes in UNLIMITED else 60 * column("TimelimitRaw", whole, minutes)


def _elapsed_s(row: Mapping[str, str]) -> int | None:
    if "Elapsed" in row:
        return column("Elapsed", duration_s, row["Elapsed"])
    return column("ElapsedRaw", duration_s, row.get("ElapsedRaw", ""))


def _processors(row: Mapping[str, str]) -> int:
    for name in ("AllocCPUS", "NCPUS"):
        if text := row.get(name, "").strip():
            return column(name, whole, text)
    found = _CPU.search(row.get("AllocTRES", ""))
    return column("AllocTRES cpu", whole, found[1]) if found else 0


def _notes(
    job: str, state: str, end_at: int | None, limit_s: int | None, *, is_repeated: bool
) -> Iterator[Note]:
    if end_at is None:
        yield Note.RUNNING
    if state in _REQUEUED:
        yield Note.REQUEUED
    if state == "CANCELLED":
        yield Note.CANCELLED
    if state in _FAILED:
        yield Note.FAILED
    if "_" in job:
        yield Note.ARRAY
    if "+" in job:
        yield Note.HETEROGENEOUS
    if limit_s is None:
        yield Note.NO_LIMIT
    if is_repeated:
        yield Note.CLOCK_CHANGE
