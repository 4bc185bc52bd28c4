"""Jobs, as `qstat` lists them, and their records of `qacct`."""

from __future__ import annotations

import re
import xml.etree.ElementTree as ET
from datetime import datetime
from signal import SIGKILL, SIGTERM, SIGUSR1, SIGUSR2, SIGXCPU

from koala.errors import LocalManagerError
from koala_agent.lrm.dialect import BatchJob, JobState, check_status, is_count
from koala_agent.lrm.local_manager import EndCause
from koala_agent.transport.interface import Answer

RECORD_RULE = "=" * 20
PART = 65_536
"""Characters of a listing that are parsed at a time."""
KILLED_AFTER_START = 100
"""`failed` of a job that a signal ended; its exit status is then 128 + the signal."""
LIMIT_ENFORCED = 37
"""`failed` of a job that the master ended at its h_rt."""
LOST_WITH_ITS_HOST = 21
"""`failed` of a job that its execution daemon knew no more: the host went down, or the daemon."""
SITE_SIGNALS = (SIGKILL, SIGTERM, SIGUSR1, SIGUSR2, SIGXCPU)
"""Signals of qdel, limits and -notify. A program's own KILL looks the same."""


def instant(text: str) -> datetime:
    """Parse a time of the cell, which names no zone; the calendar's first for any other text."""
    try:
        return datetime.fromisoformat(text.strip()).replace(tzinfo=None)
    except ValueError:
        return datetime.min  # noqa: DTZ901 - as all times here


def has_a_right(row: ET.Element) -> bool:
    """Test for a job that waits for processors: not held, not in error."""
    letters = row.findtext("state") or ""
    return state_of(letters) is JobState.QUEUED and "h" not in letters


def tree_of(answer: Answer, command: str) -> ET.Element:
    check_status(answer, command)
    parser = ET.XMLParser()
    try:
        for start in range(
            0, len(answer.out), PART
        ):  # one large feed would block the other threads
            parser.feed(answer.out[start : start + PART])
        return parser.close()
    except ET.ParseError as error:
        raise LocalManagerError(f"{command}: invalid XML in its answer: {error}") from error


def job_of(row: ET.Element) -> BatchJob:
    number, name = row.findtext("JB_job_number"), row.findtext("JB_name")
    letters = row.findtext("state")
    if number is None or name is None or letters is None or not is_count(number):
        raise LocalManagerError("qstat: a row of a listing lacks its number, name or state")
    return BatchJob(
        number=number,
        name=name,
        owner=row.findtext("JB_owner") or "",
        state=state_of(letters),
        cause=EndCause.LOST,
        reason=f"Grid Engine: state {letters}",
        is_again="R" in letters,
        is_gated="h" in letters and state_of(letters) is JobState.QUEUED,
    )


def state_of(letters: str) -> JobState:
    """Map the state letters: qw, hqw, Rq wait; r, hr, t, s, S, T, dr hold processors; E never
    starts (sge_status(5))."""
    if "E" in letters:
        return JobState.STUCK
    return JobState.QUEUED if "q" in letters else JobState.RUNNING


def slots_of(row: ET.Element) -> int:
    text = row.findtext("slots") or "0"
    if not is_count(text):
        raise LocalManagerError(f"qstat: slots = {text!r} is not a number of processors")
    return int(text)


def record_of(number: str, name: str, fields: dict[str, str]) -> BatchJob:
    failed = re.match(r"[0-9]{1,9}", fields.get("failed", ""))
    status = re.match(r"[0-9]{1,9}", fields.get("exit_status", ""))
    if failed is None or status is None:
        raise LocalManagerError(f"qacct: the record of job {number} has no end")
    code, why = int(status[0]), fields["failed"].strip()
    cause, exit_status, reason = EndCause.LOST, None, f"Grid Engine: failed {why}"
    if int(failed[0]) == 0:
        cause, exit_status, reason = EndCause.EXITED, code if code <= 128 else 128 - code, ""
    elif int(failed[0]) == LIMIT_ENFORCED:
        cause = EndCause.TIME_LIMIT
    elif int(failed[0]) == LOST_WITH_ITS_HOST:
        cause = EndCause.UNREACHABLE
    elif int(failed[0]) == KILLED_AFTER_START and code > 128:
        if code - 128 not in SITE_SIGNALS:
            cause, exit_status = EndCause.EXITED, 128 - code
        elif _reached_limit(fields):
            cause = EndCause.TIME_LIMIT
        else:  # the record does not name the sender
            cause = EndCause.CANCELLED_BY_SITE
    elif fields.get("deleted_by", "NONE") not in ("", "NONE"):
        cause = EndCause.CANCELLED_BY_SITE
    return BatchJob(
        number=number,
        name=name,
        state=JobState.ENDED,
        cause=cause,
        exit_status=exit_status,
        reason=reason,
    )


def _reached_limit(fields: dict[str, str]) -> bool:
    """Test for a run time of the whole h_rt, which its execution daemon ends with a KILL."""
    limit = re.search(r"\bh_rt=([0-9]{1,15})", fields.get("category", ""))
    ran = re.match(r"[0-9]{1,15}(?:\.[0-9]{0,15})?", fields.get("ru_wallclock", ""))
    return limit is not None and ran is not None and float(ran[0]) >= float(limit[1])
