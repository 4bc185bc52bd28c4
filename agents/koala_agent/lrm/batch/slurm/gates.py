"""Gates by `scontrol update`: what keeps a waiting job from starting, and its place in the queue.

Which one keeps the place depends on what the priority is made of. With the age of jobs, which only
a database makes count, a hold or a start time in the future sets it to zero; that of a job which
excludes all nodes grows. Without, such a job goes to the end once the scheduler has looked at it,
and a start time takes nothing away. No column of a listing has the excluded nodes, and a reason
comes late: a job that is gated has a comment that says so, set by the same command. What the job
itself asked for is put back when it is opened.
"""

from __future__ import annotations

import re
import shlex
from collections.abc import Callable, Sequence
from dataclasses import dataclass, fields
from functools import partial

from koala.errors import LocalManagerError
from koala_agent.lrm.dialect import Gate, Order, Question
from koala_agent.lrm.local_manager import RequestRefusedError
from koala_agent.transport.interface import Answer, Command

GATED, GATED_BY_NICE = "koala-gated", "koala-gated-nice"
"""Comments of a job that is gated."""
FAR, FAR_RENEW_S = "now+7days", 86_400.0
"""Start time of a job that is gated by it, which is put off once a day."""
NODES_RENEW_S = 3600.0
"""Time after which nodes that were added are excluded, too."""
NICE = 1_000_000_000
"""Nice value of a job that is gated by it."""
DONE = re.compile(r"(?i)invalid job id|already finished|no longer pending|not pending")
"""Messages about jobs that have started or ended."""
UNDER = ("PriorityType", "PriorityFlags", "AccountingStorageType")
"""Lines of the configuration that decide, with the version, what a gate does to a job's place."""
GATE_REFUSALS = re.compile(r"(?i)denied|not permitted|not allowed|invalid|disabled|not supported")
"""Messages of `scontrol update` for what our account may not change."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Own:
    """Options of a job for itself, which it has again when it is open."""

    exclude: str = ""
    nice: str = "0"
    comment: str = ""


def own_of(words: Sequence[str]) -> Own:
    """Read what options of `sbatch` say, whose names may be shortened; the last one counts."""
    found: dict[str, str] = {}
    rest = iter(words)
    for word in rest:
        name, has_value, value = word.partition("=")
        if name[:2] == "-x":
            found["exclude"] = word[2:] or next(rest, "")
            continue
        for field in fields(Own):
            if name[:2] == "--" and len(name) > 3 and field.name.startswith(name[2:]):
                default = "100" if field.name == "nice" else ""
                found[field.name] = value if has_value else default or next(rest, "")
    return Own(**found)


def gates_of(config: str, nodes: str, options: Sequence[str] = ()) -> tuple[Gate, ...]:
    """Return the gates, the best first, under what `scontrol show config` says; `nodes` are all
    nodes, `options` those of all jobs."""
    found = dict(re.findall(r"^(\w+) *= *(.*?) *$", config, re.MULTILINE))
    has_age = found.get("PriorityType", "").endswith("multifactor")
    resets_age = (
        has_age
        and found.get("AccountingStorageType", "").endswith("dbd")
        and "ACCRUE_ALWAYS" not in found.get("PriorityFlags", "")
    )

    def opening(change: str) -> Callable[[str], Order]:
        def order(native: str) -> Order:
            own = own_of((*options, *shlex.split(native)))
            return partial(_update, (change.format(own=own), f"Comment={own.comment}"))

        return order

    open_nodes = opening("ExcNodeList={own.exclude}")
    open_time = opening("StartTime=now")
    open_nice = opening("Nice={own.nice}")
    place = partial(_place, "AccrueTime" if has_age else "Priority")
    version = next((text for name, text in found.items() if name.endswith("_VERSION")), "")
    under = ", ".join([version, *(found.get(name, "") for name in UNDER)])
    by_nodes = Gate(
        name="excluded nodes",
        shut=partial(_update, (f"ExcNodeList={nodes}", f"Comment={GATED}")),
        settle=partial(_update, (f"ExcNodeList={nodes}", "StartTime=now")),
        open=open_nodes(""),
        open_native=open_nodes,
        read=_read_update,
        keeps_place=resets_age,
        renew_s=NODES_RENEW_S,
        place=place,
        under=under,
    )
    by_time = Gate(
        name="start time",
        shut=partial(_update, (f"StartTime={FAR}", f"Comment={GATED}")),
        is_native=True,
        open=open_time(""),
        open_native=open_time,
        read=_read_update,
        keeps_place=not resets_age,
        renew_s=FAR_RENEW_S,
        place=place,
        under=under,
    )
    by_nice = Gate(
        name="nice value",
        shut=partial(_update, (f"Nice={NICE}", f"Comment={GATED_BY_NICE}")),
        settle=partial(_update, (f"Nice={NICE}", "StartTime=now", f"Comment={GATED_BY_NICE}")),
        open=open_nice(""),
        open_native=open_nice,
        read=_read_update,
        place=place,
        under=under,
        note="processors that nobody else wants start a job in spite of it",
    )
    return (by_nodes, by_time, by_nice) if resets_age else (by_time, by_nice, by_nodes)


def is_gated(comment: str, reason: str) -> bool:
    """Test a waiting job: one that waits for processors alone was opened by somebody else, who left
    the comment, unless nothing but its nice value holds it back."""
    return comment == GATED_BY_NICE or (comment == GATED and reason != "Resources")


def _update(changes: tuple[str, ...], numbers: Sequence[str]) -> Command:
    return Command(argv=("scontrol", "update", f"JobId={','.join(numbers)}", *changes))


def _read_update(answer: Answer) -> None:
    """Check the answer of `scontrol update`, which has a line for each job that it did not change.
    Raises LocalManagerError."""
    lines = [line for line in answer.err.splitlines() if line.strip() and not DONE.search(line)]
    if answer.status == 0 or (not lines and answer.err.strip()):
        return
    complaint = "; ".join(lines)[:300] or answer.complaint()
    message = f"scontrol update: {complaint}"
    if "Unable to contact" not in complaint and GATE_REFUSALS.search(complaint) is not None:
        raise RequestRefusedError(message)
    raise LocalManagerError(message, transient=True)


def _place(key: str, number: str) -> Question:
    """Ask for what decides a job's place, which is a time or a number."""

    def read(answer: Answer) -> str:
        found = re.search(rf"\b({key}=[0-9]\S*)", answer.out) if answer.status == 0 else None
        return "" if found is None else found[1]

    return Question(command=Command(argv=("scontrol", "-o", "show", "job", number)), read=read)
