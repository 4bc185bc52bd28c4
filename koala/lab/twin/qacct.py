"""Records in the output of `qacct -j`: a block of lines for each task of a job.

There is no record of jobs that still run or never started.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping
from datetime import tzinfo
from functools import partial

from koala.errors import WorkloadError
from koala.lab.twin.instants import column, duration_s, instant, ordered, whole
from koala.lab.twin.records import Note, Read, Record, Skip, Skipped

COMMAND = "qacct -j '*'"
NEEDED = ("jobnumber", "qsub_time", "start_time", "end_time", "slots")
_RULE = re.compile(r"=+\s*")
_LIMIT = re.compile(r"\bh_rt=([0-9:]+|INFINITY)")
_RESCHEDULED = ("24", "25")
"""Values of `failed` for a job that is run again: migrating, rescheduling."""
_KILLED = "100"
"""Value of `failed` for a job that a signal ended."""


def read(lines: Iterable[str], *, source: str, site: str, zone: tzinfo | None) -> Iterator[Read]:
    """Read the tasks of all jobs. Raises WorkloadError if no line begins a record. The table of the
    totals, which can follow the last record, is left out."""
    block: dict[str, str] = {}
    begin, has_begun = 0, False
    for number, line in enumerate(lines, start=1):
        text = line.strip()
        if _RULE.fullmatch(text):
            if block and not _is_total(block):
                yield _job(block, begin, site, zone)
            block, begin, has_begun = {}, number, True
        elif text and not has_begun:
            yield Skipped(reason=Skip.MALFORMED, line=number, detail="before the first record")
        elif text:
            name, _, value = text.partition(" ")
            block.setdefault(name, value.strip())
    if not has_begun:
        raise WorkloadError(f"{source}: no record (expected the output of `{COMMAND}`)")
    if block and not _is_total(block):
        yield _job(block, begin, site, zone)


def _is_total(block: Mapping[str, str]) -> bool:
    """Return True for the numbers below the head of the table of totals."""
    return all(name[0].isdecimal() for name in block)


def _job(block: Mapping[str, str], line: int, site: str, zone: tzinfo | None) -> Read:
    missing = [name for name in NEEDED if name not in block]
    if missing:
        detail = f"a record without {', '.join(missing)}"
        return Skipped(reason=Skip.MALFORMED, line=line, detail=detail)
    job, task = block["jobnumber"], block.get("taskid", "undefined")
    if block.get("pe_taskid", "NONE") not in ("NONE", "undefined", ""):
        return Skipped(reason=Skip.STEP, line=line)
    category = _LIMIT.search(block.get("category", ""))
    try:
        slots = column("slots", whole, block["slots"])
        limit_s = column("h_rt", duration_s, category[1]) if category else None
        submit = column("qsub_time", partial(instant, zone=zone), block["qsub_time"])
        start = column("start_time", partial(instant, zone=zone), block["start_time"])
        end = column("end_time", partial(instant, zone=zone), block["end_time"])
    except ValueError as error:
        return Skipped(reason=Skip.MALFORMED, line=line, detail=f"job {job}: {error}")
    if start is None:
        return Skipped(reason=Skip.NOT_STARTED, line=line)
    if slots < 1:
        return Skipped(reason=Skip.NO_PROCESSORS, line=line)
    try:
        start_at, end_at, is_repeated = ordered(start, end, submit=submit, elapsed_s=_wall_s(block))
    except ValueError:
        detail = f"job {job}: end_time {block['end_time']} is before {block['start_time']}"
        return Skipped(reason=Skip.MALFORMED, line=line, detail=detail)
    if end_at is None or submit is None:
        detail = f"job {job}: no end_time or qsub_time"
        return Skipped(reason=Skip.MALFORMED, line=line, detail=detail)
    is_task = task not in ("undefined", "NONE", "0")
    failed = next(iter(block.get("failed", "").split()), "0")
    is_requeued, is_killed = failed in _RESCHEDULED, failed == _KILLED
    has_failed = failed != "0" or block.get("exit_status", "0") != "0"
    notes = {
        Note.ARRAY: is_task,
        Note.REQUEUED: is_requeued,
        Note.CANCELLED: is_killed,
        Note.FAILED: has_failed and not (is_requeued or is_killed),
        Note.NO_LIMIT: limit_s is None,
        Note.CLOCK_CHANGE: is_repeated,
    }
    return Record(
        site=site,
        job=f"{job}.{task}" if is_task else job,
        user=block.get("owner", ""),
        submit_at=min(submit[0], start_at),
        start_at=start_at,
        end_at=end_at,
        elapsed_s=None,
        processors=slots,
        limit_s=limit_s,
        notes=frozenset(note for note, is_so in notes.items() if is_so),
    )


def _wall_s(block: Mapping[str, str]) -> int | None:
    """Return the wall-clock time, which tells the hours apart that clocks repeat."""
    text = block.get("ru_wallclock", "").removesuffix("s")
    try:
        return int(float(text)) if text else None
    except (ValueError, OverflowError):  # no number, or an infinite one
        return None
