"""The queue as `squeue` lists it: why jobs wait, and the order in which they would start."""

from __future__ import annotations

import math
import re
from collections.abc import Sequence

from koala.common.protocol.messages import Queue
from koala.common.protocol.queue_limits import span
from koala_agent.lrm.dialect import DIGITS_MAX, QueueRow

NEVER = (
    "PartitionConfig",
    "PartitionNodeLimit",
    "PartitionTimeLimit",
    "BadConstraints",
    "InvalidAccount",
    "InvalidQOS",
    "AccountNotAllowed",
    "QOSNotAllowed",
    "AssocMaxWallDurationPerJobLimit",
    "QOSMaxWallDurationPerJobLimit",
    "AssocMaxCpuPerJobLimit",
    "QOSMaxCpuPerJobLimit",
)
"""Reasons of requests that are accepted and never start."""

LIMITS = ("QOS", "Assoc", "MaxJobs", "MaxCpuPerAccount", "MaxMemPerLimit")
"""Prefixes of reasons that mean that the user, or an account, has reached a limit."""

NO_RIGHT = (
    *NEVER,
    *LIMITS,
    "Dependency",
    "DependencyNeverSatisfied",
    "JobHeld",
    "BeginTime",
    "JobArrayTaskLimit",
    "Licenses",
    "Reservation",
    "ReqNodeNotAvail",
    "Nodes required for job are DOWN",
    "PartitionDown",
    "PartitionInactive",
)
"""Prefixes of reasons of jobs that wait for something else than the idle processors."""

WORDS = (
    ("Priority", "jobs with a higher priority are before it"),
    ("Resources", "the processors that it needs are in use"),
    ("ReqNodeNotAvail", "machines that it needs are reserved, down or in maintenance"),
    ("Reservation", "its reservation has not begun"),
    ("Nodes required for job are DOWN", "machines that it needs are down, drained or reserved"),
    ("PartitionTimeLimit", "it asks for more time than its partition allows"),
    ("PartitionNodeLimit", "it asks for another number of machines than its partition allows"),
    ("PartitionConfig", "its partition has no such machines, or not so many or for so long"),
    ("PartitionDown", "its partition starts no jobs now"),
    ("PartitionInactive", "its partition takes no jobs now"),
    ("BadConstraints", "no machine has the features that it asks for"),
    ("Licenses", "licences that it needs are in use"),
    ("BeginTime", "its start time has not come"),
    ("Dependency", "it waits for another job"),
    ("JobHeldUser", "its user holds it"),
    ("JobHeldAdmin", "an administrator holds it"),
    ("JobArrayTaskLimit", "as many tasks of its array run as may"),
    ("launch failed requeued held", "Slurm could not start it and holds it"),
    ("Prolog", "the prolog of its machines runs"),
    ("InvalidAccount", "its account may not be used"),
    ("InvalidQOS", "its quality of service may not be used"),
    ("AccountNotAllowed", "its account may not use the partition"),
    ("QOSNotAllowed", "its quality of service may not be used there"),
)
"""Words for reasons, by their beginnings."""
LIMITED = re.compile(r"(QOS|Assoc|MaxJobs|MaxCpuPerAccount|MaxMemPerLimit)")
WHOSE = {"Assoc": "the account's association", "QOS": "the quality of service"}
SIZED = re.compile(r"Time|Wall|Node|Cpu|Partition")
"""Reasons that the limits of the partition explain."""


def explained(reason: str, queues: Sequence[Queue]) -> str:
    """Add words, and the limits that the default partitions have, to a reason of Slurm's."""
    word = reason.partition(",")[0]
    text = next((words for start, words in WORDS if word.startswith(start)), "")
    limited = LIMITED.match(word)
    if limited is not None:
        each = " for one job" if "PerJob" in word else ""
        whose = WHOSE.get(limited[1], "its user or account")
        text = f"a limit of {whose}{each} is reached"
    if word.startswith(NEVER) and SIZED.search(word):
        text += "".join(f"; {told}" for one in queues if one.is_default and (told := tell(one)))
    return f"{reason}: {text}" if text else reason


def tell(queue: Queue) -> str:
    """Tell the limits of a partition; empty where none is known."""
    found = [span(queue.longest_s)] if queue.longest_s else []
    found += [f"{queue.processors} processors"] if queue.processors else []
    found += [f"{queue.hosts} machines"] if queue.hosts else []
    return f"{queue.name} allows {', '.join(found)} a job" if found else ""


LEFT = re.compile(r"(?:([0-9]{1,6})-)?(?:([0-9]{1,2}):)?([0-9]{1,2}):([0-9]{1,2})")
"""Time that a job may still run, as [D-][HH:]MM:SS."""


def queue_of(rows: Sequence[Sequence[str]], *, gated: str) -> tuple[QueueRow, ...]:
    """Return the jobs of `QUEUE_COLUMNS`, the waiting ones in the order of their priorities;
    `gated` is the comment of those that are gated."""
    running, waiting = [], []
    for number, state, processors, left, priority, reason, comment in rows:
        is_running = state != "PENDING"
        row = QueueRow(
            number=number,
            processors=int(processors),
            left_s=seconds_of(left),
            is_running=is_running,
        )
        if is_running:
            running.append(row)
        elif comment == gated or not reason.startswith(NO_RIGHT):
            waiting.append((row, _count(priority)))
    return (*running, *_ordered(waiting))


def _ordered(waiting: list[tuple[QueueRow, int]]) -> list[QueueRow]:
    """Sort jobs by priority. A gated one that the scheduler has looked at has none: it counts as
    the next one that was submitted."""
    by_number = sorted(waiting, key=lambda pair: _count(pair[0].number), reverse=True)
    later = min((priority for _, priority in waiting if priority), default=0)
    keyed = []
    for row, priority in by_number:
        later = priority or later
        keyed.append((-later, _count(row.number), row))
    return [row for *_, row in sorted(keyed, key=lambda key: key[:2])]


def _count(text: str) -> int:
    """Return the number at the start of a text; a member of a job array has more behind it."""
    found = re.match(rf"[0-9]{{1,{DIGITS_MAX}}}", text)
    return 0 if found is None else int(found[0])


def seconds_of(text: str) -> float:
    """Return a time limit: inf for none, 0 for one that is over."""
    if (found := LEFT.fullmatch(text)) is None:
        return 0.0 if text == "INVALID" else math.inf
    days, hours, minutes, seconds = (int(part or 0) for part in found.groups())
    return float(((days * 24 + hours) * 60 + minutes) * 60 + seconds)
