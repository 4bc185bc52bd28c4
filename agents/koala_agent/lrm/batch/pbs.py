"""The dialect of OpenPBS and PBS Professional: `qsub`, `qstat`, `qdel`, `pbsnodes`.

Written from the manual pages and sources of OpenPBS 23; no live server was to be had, and
its record says so to users.

- A claim is one chunk, `-l select=1:ncpus=N`: all its processors are on one machine.
- The script goes in by standard input. `-C ""`: no line of it is read as a directive. `-f`: qsub
  leaves no process behind, which would keep a connection of ssh open. `-r n`: never run again;
  but a job that could not begin goes back to the queue in spite of it, and `run_count` tells.
- The script writes its output itself: PBS would copy it after the end.
- A request that no machine can ever meet stays in the queue; the scheduler's comment says so.
- A hold of a job that runs would checkpoint it, where the site has that, and it would start again.
  So only a job that the last listing has as waiting is held.
- A job that ends leaves `qstat`. `qstat -x` has it where the server keeps the history of jobs
  (`job_history_enable`), which it does not by default.
"""

from __future__ import annotations

import math
import re
from dataclasses import dataclass
from importlib.resources import files
from signal import SIGKILL, SIGTERM
from typing import Any

from koala.common.protocol.messages import Queue, SiteResources
from koala.errors import LocalManagerError
from koala_agent.lrm.batch.native import option_pairs
from koala_agent.lrm.batch_system import BatchSystem, LRMTable, made_as
from koala_agent.lrm.dialect import (
    PREFIX,
    PROCESSORS_MAX,
    BatchJob,
    Dialect,
    Figures,
    Gate,
    JobState,
    Limits,
    QueueRow,
    check_word,
    count_of,
    honoured,
    is_count,
    read_json,
    submission_error,
    user_hold,
    with_output,
)
from koala_agent.lrm.local_manager import EndCause, Placeholder, RequestRefusedError
from koala_agent.transport.interface import Answer, Command

HONOURED = ("cpusPerTask", "minMemory", "gpus", "constraint", "licenses", "exclusive")
"""Resources of jobs that it always acts on."""

STATES = {
    **dict.fromkeys("QWTH", JobState.QUEUED),
    **dict.fromkeys("RESUB", JobState.RUNNING),
    **dict.fromkeys("FXM", JobState.ENDED),
}
"""States of jobs (qstat(1B)). M: moved to another server."""

CLOSED = frozenset(
    ("down", "offline", "stale", "state-unknown", "unresolvable", "provisioning", "maintenance")
)
"""States of nodes that take no jobs (pbsnodes(8B)); a node may have several."""

SIGNAL_BASE = 256
"""An `Exit_status` from here on is a signal's number above it."""
OVER_WALLTIME = -29
OVER_A_LIMIT = range(-28, -23)
"""`Exit_status` of a job that used more processors or memory than it asked for."""
NO_ANSWER_OF_MACHINE = -20

NEVER = "Can Never Run"
"""Beginning of the scheduler's comment on a request that no machine can meet."""
LIMITED = re.compile(r"(?i)limit (?:has been )?reached|has reached .{0,80}limit|would exceed")
"""The scheduler's comment on a job whose user, group or project has reached a limit."""

WORD = re.compile(r"[A-Za-z0-9_][A-Za-z0-9_.-]{0,99}")
NUMBER = re.compile(r"([0-9]{1,15})(?:\.[A-Za-z0-9_.-]*)?")
MEMORY_MB = {"": 2**-20, "k": 2**-10, "m": 1.0, "g": 2.0**10, "t": 2.0**20}

REFUSALS = re.compile(r"(?i)exceed|violates|limit|Maximum number|not enabled|not started")
"""Messages of qsub for a request that the server refuses (for now); the site works."""
FAULTS = re.compile(
    r"(?i)unknown (?:queue|resource)|illegal|invalid|unauthorized|not allowed|denied|permission"
)
"""Messages for wrong options, which stay wrong. Any other error is transient."""
AWAY = re.compile(r"(?i)cannot connect|connection|communication|timed? ?out|shutting down")
GONE = re.compile(r"Unknown Job Id|Job has finished|not configured to maintain job history")
"""Messages for a job that the server has no more."""
STARTED = "Request invalid for state of job"
"""Message about a job that is on its way in or out."""


NATIVE_OPTIONS = ("-l", "-p", "-m", "-M")
"""Options of `qsub` of PBS that jobs may give, each with one value. `-J` would make an array."""
NATIVE_OWN = (
    *("select", "place", "walltime", "min_walltime", "max_walltime", "ncpus", "ngpus", "nodes"),
    *("nodect", "mem", "mpiprocs"),
)
"""Resources of `-l` that Koala sets."""


@dataclass(frozen=True, slots=True, kw_only=True)
class PBS(Dialect):
    """Submission options of the site; empty ones are left to PBS.

    `account` is what `-A` charges, `project` what `-P` names. With a `queue` only its waiting jobs,
    and the nodes that serve it, are counted.
    """

    account: str = ""
    project: str = ""
    queue: str = ""
    options: tuple[str, ...] = ()
    native: tuple[str, ...] = ()

    @property
    def honours(self) -> tuple[str, ...]:
        """See Dialect. No claim has several machines."""
        site = {"queue": self.queue, "project": self.account}
        return honoured(HONOURED, site, self.native)

    def submit(self, placeholder: Placeholder, *, name: str, script: str) -> Command:
        asked = placeholder.resources
        argv = ["qsub", "-f", "-C", "", "-N", name, "-r", "n", "-m", "n", "-S", "/bin/bash"]
        argv += ["-j", "oe", "-o", "/dev/null"]
        argv += ["-l", f"select={_chunk(placeholder)}"]
        if asked.is_exclusive:
            argv += ["-l", "place=exclhost"]
        if placeholder.time_limit_s < math.inf:
            argv += ["-l", f"walltime={math.ceil(placeholder.time_limit_s)}"]
        for licence, count in asked.licenses:
            argv += ["-l", f"{_word('licenses', licence)}={count}"]
        for option, value in (
            ("-q", self.queue or asked.queue),
            ("-A", self.account or asked.project),
            ("-P", self.project),
        ):
            if value:
                argv += [option, value]
        native = option_pairs(asked.native, self.native, NATIVE_OPTIONS, NATIVE_OWN, signed="-p")
        gate = ("-h",) if placeholder.is_gated else ()
        script = with_output(placeholder, script)
        return Command(argv=(*argv, *self.options, *native, *gate), stdin=script)

    def read_submitted(self, answer: Answer) -> str:
        """See Dialect; the answer is NUMBER.SERVER, after what a wrapper of the site prints."""
        found = [NUMBER.fullmatch(line.strip()) for line in answer.out.splitlines()]
        numbers = [one[1] for one in found if one is not None]
        if answer.status == 0 and numbers:
            return numbers[-1]
        is_away = AWAY.search(complaint := answer.complaint()) is not None
        raise submission_error(f"qsub: {complaint}", complaint, REFUSALS, FAULTS, is_away=is_away)

    def list_jobs(self) -> Command:
        """See Dialect: those of everybody, for `-f` takes no user."""
        return Command(argv=("qstat", "-f", "-F", "json"))

    def read_jobs(self, answer: Answer) -> list[BatchJob]:
        """See Dialect; members of job arrays are never ours, and are left out."""
        rows = []
        for identifier, job in _jobs(answer).items():
            if (found := NUMBER.fullmatch(identifier)) is not None:
                rows.append(_row(found[1], job))
        return sorted(rows, key=lambda job: int(job.number))

    def withdraw(self, number: str) -> Command:
        """See Dialect; the queue's `kill_delay` is between TERM and KILL."""
        return Command(argv=("qdel", number))

    def read_withdrawn(self, answer: Answer) -> None:
        """See Dialect; a job that is on its way out is in no state to be deleted."""
        is_ending = STARTED in answer.err
        if answer.status != 0 and not is_ending and GONE.search(answer.err) is None:
            raise LocalManagerError(f"qdel: {answer.complaint()}", transient=True)

    def record(self, number: str) -> Command:
        return Command(argv=("qstat", "-x", "-f", "-F", "json", number))

    def read_record(self, answer: Answer, *, number: str, name: str) -> BatchJob | None:
        """See Dialect; a server that keeps no history has no records."""
        if answer.status != 0 and GONE.search(answer.err) is not None:
            return None
        for identifier, job in _jobs(answer).items():
            found = NUMBER.fullmatch(identifier)
            if found is not None and found[1] == number and job.get("Job_Name") == name:
                return _row(number, job)
        return None

    def figures(self) -> tuple[Command, ...]:
        return (Command(argv=("pbsnodes", "-a", "-F", "json")), self.list_jobs())

    def read_figures(self, answers: tuple[Answer, ...]) -> Figures:
        """See Dialect. Of a node that takes no jobs now only what is in use is there."""
        listed = _table(answers[0], "pbsnodes", "nodes").values()
        nodes = [node for node in listed if self._serves(node)]
        closed = [node for node in nodes if _states(node) & CLOSED]
        free = [node for node in nodes if _states(node) == {"free"}]
        whole = sum(_amount(node, "available", "ncpus") for node in nodes if node not in closed)
        used = sum(_amount(node, "assigned", "ncpus") for node in closed)
        gpus = [_amount(node, "available", "ngpus") for node in nodes]
        memory_mb = (_memory_mb(node) for node in nodes)
        return Figures(
            processors=min(PROCESSORS_MAX, whole + used),
            idle=min(PROCESSORS_MAX, sum(_left(node, "ncpus") for node in free)),
            queued_jobs=sum(self._has_a_right(job) for job in _jobs(answers[1]).values()),
            idle_gpus=sum(_left(node, "ngpus") for node in free if _left(node, "ncpus")),
            resources=SiteResources(
                gpus=min(PROCESSORS_MAX, sum(gpus)),
                host_gpus=max(gpus, default=0),
                host_memory_mb=max(memory_mb, default=0),
            ),
        )

    def limits(self) -> tuple[Command, ...]:
        """See Dialect: the queues, and the server, which has limits for all of them."""
        return (
            Command(argv=("qstat", "-Q", "-f", "-F", "json")),
            Command(argv=("qstat", "-B", "-f", "-F", "json")),
        )

    def read_limits(self, answers: tuple[Answer, ...]) -> Limits:
        """See Dialect."""
        queues = _rows(answers[0], "Queue")
        server = next(iter(_rows(answers[1], "Server").values()), {})
        default = self.queue or str(server.get("default_queue", ""))
        return Limits(
            queues=tuple(
                _queue(name, row, server, is_default=name == default)
                for name, row in queues.items()
                if str(row.get("queue_type", "")).lower().startswith("e")
            )
        )

    def list_queue(self) -> Command:
        """See Dialect."""
        return self.list_jobs()

    def read_queue(self, answer: Answer) -> tuple[QueueRow, ...]:
        """See Dialect. Jobs are taken to be in the order of their numbers, as by default; of those
        that are held only agents' count."""
        rows = []
        for identifier, job in _jobs(answer).items():
            found = NUMBER.fullmatch(identifier)
            is_running = STATES.get(str(job.get("job_state"))) is JobState.RUNNING
            is_ours = str(job.get("Job_Name")).startswith(f"{PREFIX}-")
            is_gated = job.get("job_state") == "H" and is_ours
            if found is None or not (is_running or is_gated or self._has_a_right(job)):
                continue
            limit_s = _seconds(_part(job, "Resource_List").get("walltime"))
            used_s = _seconds(_part(job, "resources_used").get("walltime"))
            row = QueueRow(
                number=found[1],
                processors=count_of(_part(job, "Resource_List").get("ncpus")),
                left_s=math.inf if limit_s is None else max(0.0, limit_s - (used_s or 0)),
                is_running=is_running,
            )
            rows.append(row)
        return tuple(sorted(rows, key=lambda row: (not row.is_running, int(row.number))))

    def read_gates(self, answers: tuple[Answer, ...]) -> tuple[Gate, ...]:
        """See Dialect: the time for which a job was eligible stands still and is not lost."""
        return (user_hold(("qhold", "-h", "u"), ("qrls", "-h", "u"), read=_read_hold),)

    def _serves(self, node: dict[str, Any]) -> bool:
        """Test for a node of our queue: one of its own, one that lists it, or one of all queues."""
        listed = _part(node, "resources_available").get("Qlist", "")
        queues = [*str(node.get("queue", "")).split(","), *str(listed).split(",")]
        wanted = [name for name in queues if name]
        return not self.queue or not wanted or self.queue in wanted

    def _has_a_right(self, job: dict[str, Any]) -> bool:
        """Test for a job that waits for processors: not held, nor for its user's limit."""
        comment = str(job.get("comment", ""))
        is_ours = not self.queue or job.get("queue") == self.queue
        is_waiting = job.get("job_state") in ("Q", "B")
        may_run = NEVER not in comment and LIMITED.search(comment) is None
        return is_ours and is_waiting and may_run


def _rows(answer: Answer, key: str) -> dict[str, dict[str, Any]]:
    """Return the rows of a listing by name; none where the server tells none."""
    rows = _part(_tree(answer, "qstat"), key) if answer.status == 0 else {}
    return {name: row for name, row in rows.items() if isinstance(row, dict)}


def _queue(name: str, row: dict[str, Any], server: dict[str, Any], *, is_default: bool) -> Queue:
    most = {**_part(server, "resources_max"), **_part(row, "resources_max")}
    usual = {**_part(server, "resources_default"), **_part(row, "resources_default")}
    return Queue(
        name=name,
        is_default=is_default,
        longest_s=_seconds(most.get("walltime")) or 0.0,
        usual_s=_seconds(usual.get("walltime")) or 0.0,
        processors=count_of(most.get("ncpus")),
        hosts=count_of(most.get("nodect")),
    )


def _read_hold(answer: Answer) -> None:
    """Check the answer of qhold and qrls, which has a line for each job that it did not change."""
    lines = [line for line in answer.err.splitlines() if line.strip()]
    wrong = [line for line in lines if GONE.search(line) is None and STARTED not in line]
    if answer.status == 0 or (lines and not wrong):
        return
    message = f"qhold: {'; '.join(wrong)[:300] or answer.complaint()}"
    if AWAY.search(message) is None and FAULTS.search(message) is not None:
        raise RequestRefusedError(message)
    raise LocalManagerError(message, transient=True)


def _chunk(placeholder: Placeholder) -> str:
    """Return a claim's one chunk. Raises RequestRefusedError for an invalid constraint."""
    asked = placeholder.resources
    parts = [f"1:ncpus={placeholder.processors}"]
    if memory_mb := (asked.memory_min_mb or 0) * placeholder.processes:
        parts.append(f"mem={memory_mb}mb")
    if asked.gpus:
        parts.append(f"ngpus={asked.gpus}")
    features = asked.constraint.split("&") if asked.constraint else []
    parts += [f"{_word('constraint', word)}=True" for word in features]
    return ":".join(parts)


def _word(key: str, text: str) -> str:
    more = " joined by &" if key == "constraint" else ""
    return check_word(key, text, WORD, f"names of resources{more}")


def _tree(answer: Answer, command: str) -> dict[str, Any]:
    tree = read_json(answer, command)
    if not isinstance(tree, dict) or "timestamp" not in tree:
        raise LocalManagerError(
            f"{command}: unexpected output (expected a listing of PBS)", transient=True
        )
    return tree


def _table(answer: Answer, command: str, key: str) -> dict[str, dict[str, Any]]:
    """Return the rows of a listing by name; a server without any leaves the key out."""
    rows = _tree(answer, command).get(key, {})
    if not isinstance(rows, dict) or not all(isinstance(row, dict) for row in rows.values()):
        raise LocalManagerError(
            f"{command}: unexpected output (expected a table of {key})", transient=True
        )
    return rows


def _jobs(answer: Answer) -> dict[str, dict[str, Any]]:
    return _table(answer, "qstat", "Jobs")


def _part(row: dict[str, Any], key: str) -> dict[str, Any]:
    part = row.get(key)
    return part if isinstance(part, dict) else {}


def _states(node: dict[str, Any]) -> set[str]:
    return {word.strip() for word in str(node.get("state", "")).split(",")}


def _amount(node: dict[str, Any], which: str, name: str) -> int:
    return count_of(_part(node, f"resources_{which}").get(name))


def _left(node: dict[str, Any], name: str) -> int:
    return max(0, _amount(node, "available", name) - _amount(node, "assigned", name))


def _memory_mb(node: dict[str, Any]) -> int:
    """Return a node's memory, as in `16316112kb`."""
    text = str(_part(node, "resources_available").get("mem", ""))
    found = re.fullmatch(r"([0-9]{1,15})([kmgt]?)b?", text)
    return 0 if found is None else min(int(int(found[1]) * MEMORY_MB[found[2]]), 2**40)


def _row(number: str, job: dict[str, Any]) -> BatchJob:
    name, letter = job.get("Job_Name"), job.get("job_state")
    if not isinstance(letter, str) or letter not in STATES or name is None:
        message = f"qstat: job {number} lacks its Job_Name or job_state"
        raise LocalManagerError(message, transient=True)
    comment = str(job.get("comment", ""))
    state, cause, exit_status = STATES[letter], EndCause.LOST, None
    reason = f"PBS: state {letter}" + (f": {comment}" if comment else "")
    starts = count_of(job.get("run_count", 0))
    if state is JobState.ENDED:
        cause, exit_status = _end(letter, job)
    elif letter == "H" and starts:
        state = JobState.HELD
    elif state is JobState.QUEUED and NEVER in comment:
        state, cause, reason = JobState.STUCK, EndCause.WITHDRAWN, f"PBS: {comment}"
    return BatchJob(
        number=number,
        name=str(name),
        owner=str(job.get("Job_Owner", "")).partition("@")[0],
        state=state,
        cause=cause,
        exit_status=exit_status,
        reason="" if cause is EndCause.EXITED and not exit_status else reason,
        is_again=starts > (0 if state is JobState.QUEUED else 1),
        is_limited=state is JobState.QUEUED and LIMITED.search(comment) is not None,
        is_gated=state is JobState.QUEUED and "u" in str(job.get("Hold_Types", "n")),
    )


def _end(letter: str, job: dict[str, Any]) -> tuple[EndCause, int | None]:
    """Read the cause of an end. The record does not name the sender of a signal."""
    text = str(job.get("Exit_status", ""))
    if letter == "M":
        return EndCause.UNREACHABLE, None
    if not is_count(text.removeprefix("-")):  # it never began
        return EndCause.CANCELLED_BY_SITE, None
    status = int(text)
    if status >= SIGNAL_BASE:
        signal = status - SIGNAL_BASE
        if signal not in (SIGTERM, SIGKILL):
            return EndCause.EXITED, -(signal % SIGNAL_BASE)
        is_over = _reached_limit(job)
        return (EndCause.TIME_LIMIT if is_over else EndCause.CANCELLED_BY_SITE), None
    if status >= 0:
        return EndCause.EXITED, status if status <= 128 else 128 - status
    if status == OVER_WALLTIME:
        return EndCause.TIME_LIMIT, None
    if status in OVER_A_LIMIT:
        return EndCause.EXITED, -SIGKILL
    return (EndCause.UNREACHABLE if status == NO_ANSWER_OF_MACHINE else EndCause.LOST), None


def _reached_limit(job: dict[str, Any]) -> bool:
    limit_s = _seconds(_part(job, "Resource_List").get("walltime"))
    used_s = _seconds(_part(job, "resources_used").get("walltime"))
    return limit_s is not None and used_s is not None and used_s >= limit_s


def _seconds(value: object) -> int | None:
    """Read a duration as in `01:30:00`; None for any other value."""
    found = re.fullmatch(r"(?:(?:([0-9]{1,9}):)?([0-9]{1,9}):)?([0-9]{1,9})", str(value))
    if found is None:
        return None
    return sum(
        int(part or 0) * unit for part, unit in zip(found.groups(), (3600, 60, 1), strict=True)
    )


class PBSTable(LRMTable, frozen=True):
    """Account, project and queue of all claims; empty ones are left to PBS."""

    account: str = ""
    project: str = ""
    queue: str = ""


SYSTEM = BatchSystem(
    kind="pbs",
    title="PBS",
    place="a PBS server",
    settings=PBSTable,
    template=files("koala_agent.lrm.batch") / "pbs.toml",
    dialect=made_as(PBS),
    programs=("qsub", "qstat", "qdel", "qhold", "qrls", "pbsnodes"),
    found_by=("qsub", "pbsnodes", "qmgr"),
    job_variables=("PBS_JOBID", "PBS_*", "NCPUS", "TMPDIR"),
    variables=("PBS_CONF_FILE", "PBS_SERVER"),
    lists_gpus=True,
    tried_with="",
)
