"""The queue as `squeue` lists it: why jobs wait, and the order in which they would start."""

from __future__ import annotations

import math
import re
from collections.abc import Collection, Iterable, Sequence
from dataclasses import replace
from typing import NamedTuple

from koala.common.protocol.messages import Queue
from koala.common.protocol.queue_limits import limit_text
from koala_agent.lrm.batch.slurm.nodes import Node
from koala_agent.lrm.dialect import QueueRow, by_priority, leading_number
from koala_agent.starter.batch_rules import expand_names

COLUMNS = (
    ("JobID", 24),
    ("State", 24),
    ("exit_code", 16),
    ("RestartCnt", 12),
    ("UserName", 64),
    ("NumCPUs", 12),
    ("TimeLimit", 24),
    ("TimeLeft", 24),
    ("PriorityLong", 24),
    ("Partition", 120),
    ("NodeList", 200),
    ("ReqNodes", 80),
    ("Feature", 80),
    ("tres-per-node", 60),
    ("tres-per-job", 60),
    ("Reason", 160),
    ("Reservation", 80),
    ("Comment", 40),
    ("Name", 80),
)
WAITING = "PENDING"
RUNNING = ("RUNNING", "SUSPENDED", "COMPLETING", "CONFIGURING")
"""States of jobs that wait, and of those that have processors."""
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
    "JobHeld",
    "JobHoldMaxRequeue",
    "MaxRequeue",
    "BeginTime",
    "Cleaning",
    "BurstBuffer",
    "launch failed",
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
    ("Reservation ", "its reservation is over, or was deleted"),
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
    ("launch failed requeued held", "it could not be started, and is held"),
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
    """Add words, and the limits that the default partitions have, to the reason of a listing."""
    word = reason.partition(",")[0]
    text = next((words for start, words in WORDS if word.startswith(start)), "")
    limited = LIMITED.match(word)
    if limited is not None:
        each = " for one job" if "PerJob" in word else ""
        whose = WHOSE.get(limited[1], "its user or account")
        text = f"a limit of {whose}{each} is reached"
    if word.startswith(NEVER) and SIZED.search(word):
        text += "".join(
            f"; {told}" for one in queues if one.is_default and (told := _allowance(one))
        )
    return f"{reason}: {text}" if text else reason


def _allowance(queue: Queue) -> str:
    """Describe the limits of a partition; empty where none is known."""
    found = [limit_text(queue.longest_s)] if queue.longest_s else []
    found += [f"{queue.processors} processors"] if queue.processors else []
    found += [f"{queue.hosts} machines"] if queue.hosts else []
    return f"{queue.name} allows {', '.join(found)} a job" if found else ""


LEFT = re.compile(r"(?:([0-9]{1,6})-)?(?:([0-9]{1,2}):)?([0-9]{1,2}):([0-9]{1,2})")
"""Time that a job may still run, as [D-][HH:]MM:SS."""


class Row(NamedTuple):
    """Row of `COLUMNS`."""

    number: str
    state: str
    code: str
    restarts: str
    owner: str
    processors: str
    limit: str
    left: str
    priority: str
    partition: str
    nodes: str
    wanted_nodes: str
    features: str
    gres_per_node: str
    gres_per_job: str
    reason: str
    reservation: str
    comment: str
    name: str


def waiting_for(
    rows: Iterable[Row], nodes: Collection[Node], ours: frozenset[str], *, gated: str
) -> tuple[QueueRow, ...]:
    """Return the jobs that wait for some of our nodes, each with those of them that it may take;
    gated ones are no competitors."""
    found = []
    known: dict[tuple[str, ...], frozenset[str]] = {}
    for row in rows:
        if row.state != WAITING or row.comment.startswith(gated) or row.reason.startswith(NO_RIGHT):
            continue
        kind = (row.partition, row.wanted_nodes, row.features, row.gres_per_node, row.gres_per_job)
        if kind not in known:
            known[kind] = _may_take(row, nodes) & ours
        if known[kind]:
            found.append(replace(_queue_row(row), nodes=known[kind]))
    return tuple(found)


def _may_take(row: Row, nodes: Collection[Node]) -> frozenset[str]:
    """Return the nodes that a waiting job may take, as far as the listing tells; those that it has
    to have, where it names some."""
    partitions = row.partition.split(",")
    fitting = [node for node in nodes if node.partition in partitions]
    if re.fullmatch(r"[\w.:-]+(?:&[\w.:-]+)*", row.features):
        fitting = [node for node in fitting if {*row.features.split("&")} <= {*node.features}]
    if "gpu" in row.gres_per_node + row.gres_per_job:
        fitting = [node for node in fitting if node.gpus]
    found = frozenset(node.name for node in fitting)
    return found & _names(row.wanted_nodes) or found


def _names(text: str) -> frozenset[str]:
    try:
        return frozenset(expand_names(text))
    except ValueError:  # cut off
        return frozenset()


def _queue_row(row: Row) -> QueueRow:
    is_running = row.state != WAITING
    return QueueRow(
        number=row.number,
        processors=int(row.processors),
        left_s=seconds_of(row.left),
        is_running=is_running,
        nodes=_names(row.nodes) or None if is_running else None,
    )


def queue_of(rows: Iterable[Row], *, gated: str) -> tuple[QueueRow, ...]:
    """Return the jobs, the waiting ones in the order of their priorities;
    comments of those that are gated begin with `gated`."""
    running, waiting = [], []
    for row in rows:
        if row.state != WAITING:
            running.append(_queue_row(row))
        elif row.comment.startswith(gated) or not row.reason.startswith(NO_RIGHT):
            waiting.append((_queue_row(row), leading_number(row.priority)))
    return (*running, *by_priority(waiting))


def seconds_of(text: str) -> float:
    """Return a time limit: inf for none, 0 for one that is over."""
    if (found := LEFT.fullmatch(text)) is None:
        return 0.0 if text == "INVALID" else math.inf
    days, hours, minutes, seconds = (int(part or 0) for part in found.groups())
    return float(((days * 24 + hours) * 60 + minutes) * 60 + seconds)
