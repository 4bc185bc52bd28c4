"""Words for what the kit has seen, as an author of a dialect reads them."""

from __future__ import annotations

import json
import shlex
from collections.abc import Iterable

from koala_agent.lrm.dialect import BatchJob
from koala_agent.lrm.local_manager import Ended, Idle, Listed, Queued, Running
from koala_agent.transport.interface import Answer, Command

CHARACTERS_MAX = 600
"""Characters of a command or its output that are shown."""


def quoted(text: str | bytes) -> str:
    """Quote a text, so that line breaks and odd characters of it can be seen."""
    if isinstance(text, bytes):
        text = text.decode(errors="replace")
    return json.dumps(text, ensure_ascii=False)


def listed_text(listed: Listed | Idle) -> str:
    """Describe a report of a local manager."""
    match listed:
        case Idle(idle=idle, processors=processors, trouble=trouble):
            return f"{idle} of {processors} processors are idle" + (trouble and f", {trouble}")
        case Ended(claim=claim):
            return f"{claim} has ended: {end_text(listed)}"
        case Queued(claim=claim):
            return f"{claim} waits in the queue"
        case Running(claim=claim):
            return f"{claim} runs"


def end_text(end: Ended) -> str:
    """Describe the end of a batch job."""
    status = "no exit status" if end.exit_status is None else f"exit status {end.exit_status}"
    return f"{end.cause}, {status}" + (end.reason and f": {end.reason}")


def jobs_text(jobs: Iterable[BatchJob]) -> str:
    """List rows of a listing."""
    rows = [f"job {job.number} is {job.state} as {quoted(job.name)}" for job in jobs]
    return "; ".join(rows) or "no job"


def exchange_text(command: Command, answer: Answer, *, count: int) -> str:
    """Describe a command that failed, with its answer, one thing a line."""
    times = f", {count} times" if count > 1 else ""
    readable = "" if answer.status else ", but the dialect does not accept the answer"
    return "\n".join(
        [
            f"failed command{times}: {_cut(shlex.join(command.argv))}",
            f"exit status: {answer.status}{readable}",
            f"standard output: {_output(answer.out)}",
            f"standard error: {_output(answer.err)}",
        ]
    )


def silence_text(command: Command, reason: str, *, count: int) -> str:
    """Describe a command that got no answer."""
    times = f", {count} times" if count > 1 else ""
    return f"failed command{times}: {_cut(shlex.join(command.argv))}\nno answer: {reason}"


def _output(text: str) -> str:
    lines = _cut(text.strip()).splitlines()
    if len(lines) < 2:
        return "".join(lines) or "nothing"
    return "\n".join(["", *(f"  {line}" for line in lines)])


def _cut(text: str) -> str:
    shown = text if len(text) <= CHARACTERS_MAX else f"{text[:CHARACTERS_MAX]} ... (cut)"
    return "".join(c if c.isprintable() or c == "\n" else " " for c in shown)
