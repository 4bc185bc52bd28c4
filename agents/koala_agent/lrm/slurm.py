"""The dialect of Slurm: `sbatch`, `squeue`, `scancel`, `sinfo`.

- `sbatch` with the script on standard input: nothing on the login node has to live as long as the
  claim. `--no-requeue`, because after a node failure Slurm starts a job again by itself, under the
  same number.
- Listings have fixed columns, because reasons hold blanks. `exit_code` is the wait status.
- Ended jobs stay listed for MinJobAge (300 s by default); afterwards `scontrol` and `squeue -j`
  say that the number is invalid, and only the accounting, where there is one, knows more.
- A controller that is away makes each command block about ten seconds and exit with 1: that is an
  error which may pass, never an empty listing.
"""

from __future__ import annotations

import math
import re
from dataclasses import dataclass
from signal import SIGKILL

from koala.errors import LocalManagerError
from koala_agent.lrm.dialect import BatchJob, Figures, JobState
from koala_agent.lrm.port import OUTPUT_FILE, EndCause, Placeholder
from koala_agent.lrm.shell import Answer, Command

COLUMNS = (("JobID", 24), ("Name", 200), ("State", 24), ("exit_code", 16), ("Reason", 400))

STATES: dict[str, JobState] = {
    "PENDING": JobState.QUEUED,
    "CONFIGURING": JobState.RUNNING,
    "RUNNING": JobState.RUNNING,
    "COMPLETING": JobState.RUNNING,
    "SUSPENDED": JobState.RUNNING,
    "STOPPED": JobState.RUNNING,
    "SIGNALING": JobState.RUNNING,
    "STAGE_OUT": JobState.RUNNING,
    "RESIZING": JobState.RUNNING,
    "REQUEUED": JobState.QUEUED,
    "REQUEUE_HOLD": JobState.STUCK,
    "REQUEUE_FED": JobState.QUEUED,
    "SPECIAL_EXIT": JobState.STUCK,
    "RESV_DEL_HOLD": JobState.STUCK,
}
"""States of jobs that have not ended (squeue(1), JOB STATE CODES)."""

ENDS: dict[str, EndCause] = {
    "COMPLETED": EndCause.EXITED,
    "FAILED": EndCause.EXITED,
    "OUT_OF_MEMORY": EndCause.EXITED,
    "TIMEOUT": EndCause.TIME_LIMIT,
    "CANCELLED": EndCause.CANCELLED_BY_SITE,
    "DEADLINE": EndCause.CANCELLED_BY_SITE,
    "PREEMPTED": EndCause.CANCELLED_BY_SITE,
    "REVOKED": EndCause.CANCELLED_BY_SITE,
    "NODE_FAIL": EndCause.UNREACHABLE,
    "BOOT_FAIL": EndCause.LOST,
    "LAUNCH_FAILED": EndCause.LOST,
    "RECONFIG_FAIL": EndCause.LOST,
}
"""States of jobs that have ended. A cancel is the site's unless we asked for it ourselves."""

NEVER = (
    "PartitionConfig",
    "PartitionNodeLimit",
    "PartitionTimeLimit",
    "BadConstraints",
    "InvalidAccount",
    "InvalidQOS",
    "AssocMaxWallDurationPerJobLimit",
    "JobHeldAdmin",
    "JobHeldUser",
)
"""Reasons of requests that Slurm accepts and keeps for ever."""

REFUSALS = re.compile(
    r"(?i)invalid|not available|more processors|exceed|not permitted|denied|violat|unrecognized"
    r"|too (?:many|large)|does not exist|no such|can ?not be satisfied"
)
"""What sbatch says of a request that is wrong and stays wrong; anything else may pass."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Slurm:
    """How the site wants its claims submitted; empty words are left to Slurm."""

    account: str = ""
    partition: str = ""
    qos: str = ""
    user: str = ""
    options: tuple[str, ...] = ()

    @property
    def honours(self) -> tuple[str, ...]:
        """See Dialect."""
        free = (("queue", self.partition), ("project", self.account))
        return ("hostCount", "minMemory", *(name for name, given in free if not given))

    def submit(self, placeholder: Placeholder, *, name: str, script: str) -> Command:
        """See Dialect. One task a processor, wherever Slurm finds them."""
        limit = "UNLIMITED"
        if placeholder.time_limit_s < math.inf:
            limit = str(max(1, math.ceil(placeholder.time_limit_s / 60)))
        argv = [
            "sbatch",
            "--parsable",
            "--no-requeue",
            f"--job-name={name}",
            f"--ntasks={placeholder.processors}",
            f"--time={limit}",
            f"--chdir={placeholder.directory}",
            f"--output={placeholder.directory / OUTPUT_FILE}",
            "--open-mode=append",
        ]
        memory_mb = placeholder.memory_min_mb
        is_single = placeholder.processes == 1
        for option, value in (
            ("--account", self.account or placeholder.project),
            ("--partition", self.partition or placeholder.queue),
            ("--qos", self.qos),
            ("--nodes", placeholder.hosts),
            ("--mem" if is_single else "--mem-per-cpu", memory_mb and f"{memory_mb}M"),
        ):
            if value:
                argv.append(f"{option}={value}")
        return Command(argv=(*argv, *self.options), stdin=script)

    def read_submitted(self, answer: Answer) -> str:
        """See Dialect; the answer is NUMBER or NUMBER;CLUSTER."""
        number = answer.out.strip().partition(";")[0]
        if answer.status == 0 and number.isdigit():
            return number
        complaint = answer.complaint()
        raise LocalManagerError(
            f"sbatch: {complaint}", transient=REFUSALS.search(complaint) is None
        )

    def list_jobs(self) -> Command:
        """See Dialect."""
        columns = ",".join(f"{name}:{width}" for name, width in COLUMNS)
        whose = ("--me",) if not self.user else (f"--user={self.user}",)
        return Command(argv=("squeue", "-h", "-a", "-t", "all", *whose, "-O", columns))

    def read_jobs(self, answer: Answer) -> list[BatchJob]:
        """See Dialect."""
        _check(answer, "squeue")
        return sorted(map(_row, answer.out.splitlines()), key=lambda job: int(job.number))

    def withdraw(self, number: str) -> Command:
        """See Dialect. `--full` reaches the script, which is the starter, at once."""
        return Command(argv=("scancel", number))

    def read_withdrawn(self, answer: Answer) -> None:
        """See Dialect; scancel has no objection to a job that has ended."""
        if answer.status != 0 and "nvalid job id" not in answer.err:
            _check(answer, "scancel")

    def record(self, number: str) -> Command:
        """See Dialect: what `scontrol` still has; MinJobAge is counted from the end there, too."""
        return Command(argv=("scontrol", "-o", "show", "job", number))

    def read_record(self, answer: Answer, *, number: str, name: str) -> BatchJob | None:
        """See Dialect."""
        if answer.status != 0 and "nvalid job id" in answer.err:
            return None
        _check(answer, "scontrol")
        state = re.search(r"\bJobState=(\w+)", answer.out)
        code = re.search(r"\bExitCode=(\d+):(\d+)", answer.out)
        if state is None or code is None or state[1] not in ENDS:
            return None
        wait_status = int(code[1]) << 8 | int(code[2])
        return _ended(number, name, state[1], wait_status, "")

    def figures(self) -> tuple[Command, ...]:
        """See Dialect: CPUs of nodes that are up, and who waits for them."""
        where = (f"--partition={self.partition}",) if self.partition else ()
        return (
            Command(argv=("sinfo", "-h", *where, "-o", "%C")),
            Command(argv=("squeue", "-h", *where, "-t", "PENDING", "-o", "%i")),
        )

    def read_figures(self, answers: tuple[Answer, ...]) -> Figures:
        """See Dialect; %C is allocated/idle/other/total, "other" being what is down or drained."""
        processors, pending = answers
        _check(processors, "sinfo")
        _check(pending, "squeue")
        counts = re.findall(r"^(\d+)/(\d+)/(\d+)/(\d+)$", processors.out, re.MULTILINE)
        if not counts:
            raise LocalManagerError(f"sinfo: {processors.out.strip()!r} is no count of processors")
        idle = sum(int(row[1]) for row in counts)
        total = sum(int(row[3]) - int(row[2]) for row in counts)
        queued_jobs = len(pending.out.split())
        return Figures(processors=total, idle=idle, queued_jobs=queued_jobs)


def _check(answer: Answer, command: str) -> None:
    """Whatever a read-only command complains of may pass: the controller is away, mostly."""
    if answer.status != 0:
        raise LocalManagerError(f"{command}: {answer.complaint()}", transient=True)


def _row(line: str) -> BatchJob:
    fields: list[str] = []
    at = 0
    for _, width in COLUMNS:
        fields.append(line[at : at + width].strip())
        at += width
    number, name, state, code, reason = fields
    # A member of a job array or of a heterogeneous job has its place behind the number.
    plain = re.match(r"\d+", number)
    if plain is None or not code.lstrip("-").isdigit():
        raise LocalManagerError(f"squeue: {line.strip()[:200]!r} is no row of a listing")
    if state in STATES:
        is_stuck = STATES[state] is JobState.QUEUED and reason.split(",")[0] in NEVER
        now = JobState.STUCK if is_stuck else STATES[state]
        return BatchJob(number=plain[0], name=name, state=now, reason=reason)
    return _ended(plain[0], name, state, int(code), reason)


def _ended(number: str, name: str, state: str, wait_status: int, reason: str) -> BatchJob:
    cause = ENDS.get(state, EndCause.LOST)  # a state of a version to come: nobody knows how
    number_of_signal = wait_status & 0x7F
    status = -number_of_signal if number_of_signal else wait_status >> 8
    if state == "OUT_OF_MEMORY" and status == 0:
        status = -SIGKILL
    words = "" if state == "COMPLETED" else f"Slurm: {state}"
    if words and reason not in ("", "None"):
        words = f"{words} ({reason})"
    return BatchJob(
        number=number,
        name=name,
        state=JobState.ENDED,
        cause=cause,
        exit_status=status if cause is EndCause.EXITED else None,
        reason=words,
    )
