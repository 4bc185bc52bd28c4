"""The dialect of HTCondor: `condor_submit`, `condor_q`, `condor_rm`, `condor_history`.

- A job's claim is its attribute `KoalaClaim`. A claim is one job of the vanilla universe, which has
  all its processors on one machine.
- `condor_submit -spool` with the script on standard input: the schedd keeps the script in a folder
  of the job's owner, so that nothing on the login node has to live as long as the claim, and a
  claim's secret is in no attribute (everybody may read those). Until the script has arrived the job
  is held with a code of its own.
- HTCondor by itself runs a job again after an eviction, and keeps a failed one held. So a job
  matches no machine after its first start, and the schedd removes one that was evicted or held,
  with or without an agent.
- A hold takes a job that has started meanwhile off its machine. So what keeps a job from starting
  is an attribute that its requirements look at; it is changed without any trace in its place.
- A job that ends leaves `condor_q` at once, for `condor_history`.
- HTCondor accepts requests that no machine can ever meet: `condor_status` is asked before. Limits
  that are shared over the pool (licences) it does not list.
- A schedd that is away ends each command with 1, and one that stands still blocks it: an error that
  may pass, never an empty listing.
"""

from __future__ import annotations

import math
import re
from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
from importlib.resources import files
from signal import SIGKILL
from typing import Any

from koala.common.protocol.messages import Queue, Resources, SiteResources
from koala.errors import LocalManagerError
from koala_agent.lrm.batch.native import check_allowed, native_words, refuse
from koala_agent.lrm.batch_system import BatchSystem, LRMTable, made_as
from koala_agent.lrm.dialect import (
    PROCESSORS_MAX,
    BatchJob,
    Dialect,
    Figures,
    Gate,
    JobState,
    Limits,
    Question,
    check_status,
    check_word,
    honoured,
    is_count,
    read_json,
    submission_error,
    with_output,
)
from koala_agent.lrm.local_manager import EndCause, Placeholder, RequestRefusedError
from koala_agent.transport.interface import Answer, Command

CONDITIONS_TOLD = 3
LENGTH_MAX = 300

REASON = re.compile(r"^Reason for last match failure: (.+)$", re.MULTILINE)
"""The negotiator's words; missing until its first cycle with the job."""
CONDITION = re.compile(r"^\[[0-9]{1,4}\] +([0-9]{1,9})  (\S.*)$", re.MULTILINE)
"""One condition of the job, with the number of slots that meet it."""
OWN = "NumShadowStarts"
"""Attribute in a condition that Koala gives to each of its jobs, so it explains nothing."""
MACHINES = re.compile(r"Of ([0-9]{1,9}) machines,\s*$", re.MULTILINE)
COUNT = re.compile(r"^ +([1-9][0-9]{0,8}) (are rejected|reject your|match but)(.*)$", re.MULTILINE)
"""A number of machines that do not take the job now."""


def wait_reason(text: str) -> str:
    """Return the reason in one short line; empty when the text has none."""
    reason = REASON.search(text)
    parts = [reason[1].strip()] if reason is not None else []
    parts += _unmet(text)
    machines = MACHINES.search(text)
    counts = [f"{count} {verb}{rest}" for count, verb, rest in COUNT.findall(text)]
    if machines is not None and counts:
        parts.append(f"of {machines[1]} machines {', '.join(counts)}")
    line = "".join(char for char in "; ".join(parts) if char.isprintable())
    words = " ".join(line.split())
    return words if len(words) <= LENGTH_MAX else f"{words[: LENGTH_MAX - 3]}..."


def _unmet(text: str) -> list[str]:
    """Return the conditions that fewer slots meet than another condition; the hardest first."""
    found = [(int(slots), words) for slots, words in CONDITION.findall(text) if OWN not in words]
    most = max((slots for slots, _ in found), default=0)
    hard = sorted((one for one in found if one[0] < most), key=lambda one: one[0])
    return [f"{slots} of {most} slots meet {words}" for slots, words in hard[:CONDITIONS_TOLD]]


SUBMIT = """\
umask 077
d=$(mktemp -d "${TMPDIR:-/tmp}/koala-XXXXXXXX") || exit 71
trap 'rm -rf "$d"' EXIT
trap 'exit 71' HUP INT TERM
cd "$d" && cat > job && chmod 700 job || exit 71
printf '%s\\n' "$1" | condor_submit -terse -spool -
"""
"""$1 is the description of the job, standard input is its script."""

DESCRIPTION = (
    "universe = vanilla",
    "executable = job",
    "should_transfer_files = YES",
    "when_to_transfer_output = ON_EXIT",
    'transfer_output_files = ""',
    "output = /dev/null",
    "error = /dev/null",
    "notification = never",
    "getenv = HOME, USER, LOGNAME, SHELL, PATH, LANG, TZ",
    "kill_sig = SIGTERM",
    "want_graceful_removal = True",
    "leave_in_queue = False",
    "max_retries = 0",
)
"""Submit commands of all jobs. `leave_in_queue`: spooled jobs stay for days else."""

JOB_COLUMNS = (
    *("ClusterId", "KoalaClaim", "Owner", "JobStatus", "NumShadowStarts", "ServerTime"),
    *("EnteredCurrentStatus", "ExitBySignal", "ExitCode", "ExitSignal", "HoldReason"),
    *("HoldReasonCode", "LastHoldReason", "LastHoldReasonCode", "RemoveReason"),
    *("VacateReason", "VacateReasonCode", "KoalaGated"),
)
SLOT_COLUMNS = (
    *("Name", "State", "Activity", "PartitionableSlot", "DynamicSlot", "Cpus", "TotalSlotCpus"),
    *("Memory", "TotalSlotMemory", "GPUs", "TotalSlotGPUs", "Offline", "GPUs_DeviceName", "Start"),
)

IDLE, RUNNING, REMOVED, COMPLETED, HELD, TRANSFERRING, SUSPENDED = range(1, 8)
"""Values of `JobStatus`."""

CLOSED = ("Owner", "Drained", "Delete")
"""States of slots that take no jobs."""

BY_USER, TOO_LONG, RAN_TOO_LONG, MEMORY, SPOOLING = 1, 46, 47, 34, 16
"""Hold codes: by a person, at `allowed_job_duration` or its sibling for execution, too much memory,
and the script that has not arrived."""
SPOOL_S = 60
"""Longest time that a script may take to arrive; its agent may have been killed."""
IDLE_AND_GATED = f"JobStatus == {IDLE} && KoalaGated =?= true"
SYSTEM_RULES = ("SYSTEM_PERIODIC_REMOVE", "SYSTEM_PERIODIC_HOLD")
OF_OTHERS = re.compile(r"(?i)JobStatus\s*(?:=\?=|==)\s*[^2\s]|JobUniverse\s*(?:=\?=|==)")
"""Part of such a rule that is not for running jobs of ours."""
RUN_FOR = re.compile(
    r"(?i)(?:(?:time\(\)|CurrentTime)\s*-\s*(?:MY\.)?"
    r"(?:EnteredCurrentStatus|JobStartDate|JobCurrentStart\w*Date|ShadowBday)"
    r"|RemoteWallClockTime)\s*\)*\s*>=?\s*\(?\s*([0-9][0-9*\s]*)"
)
"""Time that a job has run for, and how long it may."""
NUMBER_MAX = 2**31
VACATE_S = 20
"""Seconds between TERM and KILL."""
LEASE_S = 600
"""Seconds for which a job outlives the sight of its schedd. A job whose machine is silent counts as
running for so long, and its programs have ended then. (HTCondor's default is 40 minutes.)"""
HISTORY_MAX = 100_000
"""Records of ended jobs that are looked through, the last first."""

ONCE = "(NumShadowStarts ?: 0) < 1"
"""Requirement of a job that has not been started yet."""
OPEN = "MY.KoalaGated =!= true"
"""Requirement of a job that is not gated."""
FAILED = (
    f"(JobStatus == {IDLE} && NumShadowStarts > 0) || (JobStatus == {HELD} &&"
    f" (HoldReasonCode =!= {SPOOLING} || time() - EnteredCurrentStatus > {5 * SPOOL_S}))"
)
"""Condition on which the schedd removes a job by itself."""
WHY_FAILED = f'JobStatus == {HELD} ? strcat("it was held: ", HoldReason) : "it was evicted"'

HONOURED = ("cpusPerTask", "minMemory", "gpus", "gpuType", "constraint", "licenses")
"""Resources of jobs that it always acts on."""

WORD = re.compile(r"[A-Za-z0-9_][A-Za-z0-9_.@+ -]{0,199}")
FEATURE = re.compile(r"[A-Za-z_][A-Za-z0-9_]{0,99}")

REFUSALS = re.compile(r"(?i)exceed|\blimit|submit_requirement|rejected")
"""Messages of condor_submit for a request that the schedd refuses (for now); the site works."""

FAULTS = re.compile(r"(?i)invalid|not a valid|unknown|not allowed|denied|illegal|syntax|parse")
"""Messages for wrong submit commands, which stay wrong. Any other error is transient."""

AWAY = re.compile(r"(?i)SECMAN|AUTHENTICATE|connect|find address|communicat|timed? ?out")


VALUE = re.compile(r"[^$]*[^$\\]")
"""Value of a submit command. After a backslash at its end the next line would belong to it."""

NATIVE_OWN = (
    *("accounting_group", "allowed_", "arguments", "batch_name", "concurrency_limits", "container"),
    *("cron_", "deferral_", "docker_", "elif", "else", "endif", "env", "error", "executable"),
    *("getenv", "hold", "if", "include", "initial", "input", "job_lease", "job_max_vacate"),
    *("keep_claim_idle", "kill_sig", "koala", "leave_in_queue", "log", "machine_count"),
    *("max_idle", "max_materialize", "max_retries", "next_job_start", "noop_job", "notif"),
    *("on_exit", "output", "periodic_", "preserve_relative", "queue", "remove_kill", "request_"),
    *("require", "retry_", "should_transfer", "stream_", "success_exit", "transfer_", "universe"),
    *("use", "want_graceful", "warning", "when_to_transfer"),
    *("acct", "args", "clusterid", "cmd", "err", "iwd", "job_status", "job_universe"),
    *("leave_job_in_queue", "num_job", "num_shadow", "num_system"),
    *("out", "owner", "procid", "remote_iwd", "stage_in"),
)
"""Beginnings of submit commands that Koala sets or counts, or that would change how its batch job
runs, and of the attributes that they become; also without `_`, as attributes are called."""


@dataclass(frozen=True, slots=True, kw_only=True)
class HTCondor(Dialect):
    """Submission options of the site; empty ones are left to HTCondor.

    `requirements` is an expression on machines: only those that meet it are used and counted.
    `options` are submit commands, as in `+SingularityImage = "lab.sif"`.
    """

    project: str = ""
    requirements: str = ""
    options: tuple[str, ...] = ()
    native: tuple[str, ...] = ()

    @property
    def honours(self) -> tuple[str, ...]:
        """See Dialect. HTCondor has no queues, and no claim has several machines."""
        return honoured(HONOURED, {"project": self.project}, self.native)

    def submit(self, placeholder: Placeholder, *, name: str, script: str) -> Command:
        description = "\n".join([*self._description(placeholder, name=name), "queue"])
        script = with_output(placeholder, script)
        return Command(argv=("/bin/sh", "-c", SUBMIT, "koala-submit", description), stdin=script)

    def _description(self, placeholder: Placeholder, *, name: str) -> list[str]:
        """Return the submit commands. Raises RequestRefusedError for what HTCondor lacks."""
        asked = placeholder.resources
        lines = [
            *DESCRIPTION,
            f'+KoalaClaim = "{name}"',
            f'batch_name = "{name}"',
            f"request_cpus = {placeholder.processors}",
            f"requirements = {_all_of([ONCE, OPEN, *self._wishes(asked)])}",
            f"periodic_remove = {FAILED}",
            f"+PeriodicRemoveReason = {WHY_FAILED}",
            f"job_max_vacate_time = {VACATE_S}",
            f"job_lease_duration = {LEASE_S}",
        ]
        if placeholder.is_gated:
            lines.append("+KoalaGated = true")
        if placeholder.time_limit_s < math.inf:
            lines.append(f"allowed_job_duration = {math.ceil(placeholder.time_limit_s)}")
        if memory_mb := _memory_mb(placeholder):
            lines.append(f"request_memory = {memory_mb}M")
        if asked.gpus:
            lines.append(f"request_gpus = {asked.gpus}")
            if asked.gpu_type:
                kind = _word("gpuType", asked.gpu_type)
                lines.append(f'require_gpus = DeviceName == "{kind}"')
        if asked.licenses:
            shares = (f"{_word('licenses', name)}:{count}" for name, count in asked.licenses)
            lines.append(f"concurrency_limits = {','.join(shares)}")
        if project := self.project or asked.project:
            lines.append(f"accounting_group = {_word('project', project)}")
        native = _native_commands(asked.native, self.native) if asked.native else ()
        return [*lines, *self.options, *native]

    def _wishes(self, asked: Resources) -> list[str]:
        """Return what is demanded of a machine. Raises RequestRefusedError for a constraint that is
        no list of features."""
        features = asked.constraint.split("&") if asked.constraint else []
        if wrong := next((word for word in features if not FEATURE.fullmatch(word)), ""):
            message = f"constraint: {wrong!r} is refused (expected attributes joined by &)"
            raise RequestRefusedError(message)
        own = [self.requirements] if self.requirements else []
        return [*own, *(f"{word} =?= True" for word in features)]

    def ask(self, placeholder: Placeholder, *, name: str, script: str) -> Command | None:
        """See Dialect: is there one machine that could meet it, were it empty?"""
        asked = placeholder.resources
        wishes = [f"TotalSlotCpus >= {placeholder.processors}", *self._wishes(asked)]
        if memory_mb := _memory_mb(placeholder):
            wishes.append(f"TotalSlotMemory >= {memory_mb}")
        if asked.gpus:
            wishes.append(f"TotalSlotGPUs >= {asked.gpus}")
            if asked.gpu_type:
                wishes.append(f'GPUs_DeviceName == "{_word("gpuType", asked.gpu_type)}"')
        which = ("-constraint", _all_of(wishes))
        return Command(argv=("condor_status", "-limit", "1", *which, "-af", "Name"))

    def read_asked(self, answer: Answer) -> None:
        check_status(answer, "condor_status")
        if not answer.out.strip():
            message = (
                "no machine of the pool has what the claim asks for (condor_status): all processors"
                " of a claim are on one machine; split the component to have several machines"
            )
            raise RequestRefusedError(message)

    def read_submitted(self, answer: Answer) -> str:
        """See Dialect; the answer is the first and the last job, as in `12.0 - 12.0`."""
        found = re.search(r"^([0-9]{1,15})\.0 - \1\.0\s*$", answer.out, re.MULTILINE)
        if answer.status == 0 and found is not None:
            return found[1]
        message = f"condor_submit: {answer.complaint()}"
        is_away = AWAY.search(answer.err) is not None
        raise submission_error(message, answer.err, REFUSALS, FAULTS, is_away=is_away)

    def limits(self) -> tuple[Command, ...]:
        """See Dialect: when the schedd removes or holds jobs, as far as this host's configuration
        is the schedd's."""
        return (Command(argv=("condor_config_val", *SYSTEM_RULES)),)

    def read_limits(self, answers: tuple[Answer, ...]) -> Limits:
        """See Dialect: the shortest time after which such a rule ends a job that runs."""
        clauses = [
            part for part in re.split(r"\|\||\n", answers[0].out) if not OF_OTHERS.search(part)
        ]
        times = [
            math.prod(int(number) for number in re.findall(r"[0-9]{1,9}", found[1]))
            for part in clauses
            for found in RUN_FOR.finditer(part)
        ]
        if not times:
            return Limits()
        return Limits(queues=(Queue(name="pool", is_default=True, longest_s=float(min(times))),))

    def list_jobs(self) -> Command:
        """See Dialect: the account's own, even where a site lists all by default."""
        own = ("env", "_CONDOR_CONDOR_Q_ONLY_MY_JOBS=True", "condor_q", "-json")
        which = ("-constraint", "KoalaClaim isnt undefined", "-attributes", ",".join(JOB_COLUMNS))
        return Command(argv=(*own, *which))

    def read_jobs(self, answer: Answer) -> list[BatchJob]:
        """See Dialect. The owner may be called otherwise than the account is, and is not read."""
        rows = [_row(ad) for ad in _ads(answer, "condor_q")]
        return sorted(rows, key=lambda job: int(job.number))

    def withdraw(self, number: str) -> Command:
        return Command(argv=("condor_rm", number))

    def read_withdrawn(self, answer: Answer) -> None:
        """See Dialect; condor_rm exits with 1 for a job that has ended, and with more words for a
        schedd that is away."""
        if answer.status != 0 and (
            "Couldn't find" not in answer.err or AWAY.search(answer.err) is not None
        ):
            raise LocalManagerError(f"condor_rm: {answer.complaint()}", transient=True)

    def record(self, number: str) -> Command:
        bounds = ("-limit", "1", "-scanlimit", str(HISTORY_MAX))
        columns = ("-attributes", ",".join(JOB_COLUMNS))
        return Command(argv=("condor_history", "-json", *bounds, *columns, number))

    def read_record(self, answer: Answer, *, number: str, name: str) -> BatchJob | None:
        for ad in _ads(answer, "condor_history"):
            if ad.get("KoalaClaim") == name:
                return _ended(number, name, ad)
        return None

    def explain(self, number: str) -> Question:
        """See Dialect. The analysis asks the collector for all slots. `env`, as for the listing: in
        site mode sudo allows `condor_q` through it alone."""

        def read(answer: Answer) -> str:
            return wait_reason(answer.out) if answer.status == 0 else ""

        command = Command(argv=("env", "condor_q", "-better-analyze", number))
        return Question(command=command, read=read)

    def figures(self) -> tuple[Command, ...]:
        """See Dialect: the slots; the jobs of our schedd, which are exact; and those of others,
        which the collector hears of from time to time."""
        which = ("-constraint", self.requirements) if self.requirements else ()
        slots = ("condor_status", "-json", *which, "-attributes", ",".join(SLOT_COLUMNS))
        schedds = ("condor_status", "-schedd", "-json", "-attributes", "Name,TotalIdleJobs")
        return (
            Command(argv=slots),
            Command(argv=("condor_q", "-allusers", "-totals", "-constraint", IDLE_AND_GATED)),
            Command(argv=schedds),
        )

    def read_figures(self, answers: tuple[Answer, ...]) -> Figures:
        """See Dialect. Of a machine that takes no jobs now only what is in use is there. A slot
        that is claimed counts as in use, for a claim of its owner alone may have it."""
        ads, totals, schedds = answers
        slots = [ad for ad in _ads(ads, "condor_status") if not _is_true(ad, "Offline")]
        whole = [ad for ad in slots if not _is_true(ad, "DynamicSlot")]
        closed = [ad for ad in whole if ad.get("State") in CLOSED or ad.get("Start") is False]
        free = [ad for ad in whole if ad not in closed and _is_free(ad)]
        kinds = {str(ad["GPUs_DeviceName"]) for ad in whole if ad.get("GPUs_DeviceName")}
        return Figures(
            processors=max(0, _sum(whole, "TotalSlotCpus") - _sum(closed, "Cpus")),
            idle=_sum(free, "Cpus"),
            queued_jobs=_idle_jobs(totals, _ads(schedds, "condor_status")),
            idle_gpus=_sum([ad for ad in free if _number(ad, "Cpus")], "GPUs"),
            resources=SiteResources(
                gpus=_sum(whole, "TotalSlotGPUs"),
                host_gpus=max((_number(ad, "TotalSlotGPUs") for ad in whole), default=0),
                gpu_types=tuple(sorted(kinds)),
                host_memory_mb=max((_number(ad, "TotalSlotMemory") for ad in whole), default=0),
            ),
        )

    def read_gates(self, answers: tuple[Answer, ...]) -> tuple[Gate, ...]:
        """See Dialect: the order of an owner's jobs is that of their submission."""
        gate = Gate(
            name="requirement",
            shut=partial(_qedit, "true"),
            open=partial(_qedit, "false"),
            read=_read_qedit,
            is_native=True,
        )
        return (gate,)


def _qedit(value: str, numbers: Sequence[str]) -> Command:
    which = " || ".join(f"ClusterId == {number}" for number in numbers)
    return Command(argv=("condor_qedit", "-constraint", which, "KoalaGated", value))


def _read_qedit(answer: Answer) -> None:
    """Check the answer of condor_qedit, which fails where none of the jobs is there any more."""
    if answer.status == 0 or "by constraint" in answer.err + answer.out:
        return
    message = f"condor_qedit: {answer.complaint()}"
    if AWAY.search(message) is None and FAULTS.search(message) is not None:
        raise RequestRefusedError(message)
    raise LocalManagerError(message, transient=True)


def _memory_mb(placeholder: Placeholder) -> int:
    """Return the memory of the whole job, 0 for no wish."""
    return (placeholder.resources.memory_min_mb or 0) * placeholder.processes


def _all_of(terms: list[str]) -> str:
    return " && ".join(f"({term})" for term in terms)


def _word(key: str, text: str) -> str:
    return check_word(key, text, WORD, "letters, digits and _ . @ + -")


def _ads(answer: Answer, command: str) -> list[dict[str, Any]]:
    """Parse a listing; one without rows is empty, or an empty list."""
    ads = read_json(answer, command, empty="[]")
    if not isinstance(ads, list) or not all(isinstance(ad, dict) for ad in ads):
        raise LocalManagerError(
            f"{command}: unexpected output (expected a list of ads)", transient=True
        )
    return ads


def _number(ad: dict[str, Any], name: str) -> int:
    """Return a number of an ad; 0 where it is missing or is none."""
    value = ad.get(name)
    if isinstance(value, bool) or not isinstance(value, int | float):
        return 0
    return int(value) if 0 <= value < NUMBER_MAX else 0


def _sum(ads: list[dict[str, Any]], name: str) -> int:
    return min(PROCESSORS_MAX, sum(_number(ad, name) for ad in ads))


def _is_true(ad: dict[str, Any], name: str) -> bool:
    return ad.get(name) is True


def _is_free(ad: dict[str, Any]) -> bool:
    """Test for a slot whose processors nobody has; a partitionable one has what is left."""
    return ad.get("State") == "Unclaimed" or _is_true(ad, "PartitionableSlot")


def _words(ad: dict[str, Any], name: str) -> str:
    value = ad.get(name)
    return value if isinstance(value, str) else ""


def _idle_jobs(totals: Answer, schedds: list[dict[str, Any]]) -> int:
    """Sum up the jobs that wait at our schedd, without those that are gated, which the query was
    for, and those that other schedds report."""
    check_status(totals, "condor_q")
    ours = re.search(r"^-- Schedd: (\S+)", totals.out, re.MULTILINE)
    counts = re.findall(r"^Total for (.*?):.*?([0-9]{1,9}) idle", totals.out, re.MULTILINE)
    if ours is None or not counts:
        raise LocalManagerError("condor_q: its totals cannot be read", transient=True)
    others = (ad for ad in schedds if ad.get("Name") != ours[1])
    idle = max(int(count) for _, count in counts) - int(dict(counts).get("query", 0))
    return idle + _sum(list(others), "TotalIdleJobs")


def _row(ad: dict[str, Any]) -> BatchJob:
    number, name = str(ad.get("ClusterId")), _words(ad, "KoalaClaim")
    status = _number(ad, "JobStatus")
    if not is_count(number) or not status:
        raise LocalManagerError("condor_q: an ad lacks its ClusterId or JobStatus", transient=True)
    if status == COMPLETED:
        return _ended(number, name, ad)
    has_started = _number(ad, "NumShadowStarts") > 0
    state, cause, reason = JobState.RUNNING, EndCause.LOST, ""
    if status == IDLE:
        state, reason = JobState.QUEUED, _words(ad, "VacateReason")
    elif status == HELD:
        cause, reason = _hold(_number(ad, "HoldReasonCode"), _words(ad, "HoldReason"))
        state = JobState.HELD if has_started else JobState.STUCK
        if _number(ad, "HoldReasonCode") == SPOOLING:
            waited_s = _number(ad, "ServerTime") - _number(ad, "EnteredCurrentStatus")
            state = JobState.STUCK if waited_s > SPOOL_S else JobState.QUEUED
    return BatchJob(
        number=number,
        name=name,
        state=state,
        cause=cause,
        reason=reason,
        is_again=status == IDLE and has_started,
        is_gated=status == IDLE and _is_true(ad, "KoalaGated"),
    )


def _hold(code: int, reason: str) -> tuple[EndCause, str]:
    """Return the cause of a hold, and words for it."""
    cause = {
        BY_USER: EndCause.CANCELLED_BY_SITE,
        TOO_LONG: EndCause.TIME_LIMIT,
        RAN_TOO_LONG: EndCause.TIME_LIMIT,
        MEMORY: EndCause.EXITED,
    }.get(code, EndCause.LOST)
    return cause, f"HTCondor: held: {reason}"


def _ended(number: str, name: str, ad: dict[str, Any]) -> BatchJob:
    """Read the end of a job: by itself, after a hold or an eviction, or removed."""
    cause, exit_status, reason = EndCause.CANCELLED_BY_SITE, None, ""
    code = _number(ad, "HoldReasonCode") or _number(ad, "LastHoldReasonCode")
    held = _words(ad, "HoldReason") or _words(ad, "LastHoldReason")
    if _number(ad, "JobStatus") == COMPLETED:
        is_signal = _is_true(ad, "ExitBySignal")
        cause = EndCause.EXITED
        exit_status = -_number(ad, "ExitSignal") if is_signal else _number(ad, "ExitCode")
    elif code not in (0, SPOOLING):
        cause, reason = _hold(code, held)
        exit_status = -SIGKILL if cause is EndCause.EXITED else None
    else:
        removed = _words(ad, "VacateReason") or _words(ad, "RemoveReason")
        reason = f"HTCondor: removed: {removed}"
    return BatchJob(
        number=number,
        name=name,
        state=JobState.ENDED,
        cause=cause,
        exit_status=exit_status,
        reason=reason,
    )


def _native_commands(text: str, allowed: tuple[str, ...]) -> list[str]:
    """Return a job's commands for `condor_submit`, as `NAME=VALUE`. Raises RequestRefusedError."""
    words = native_words(text)
    for word in words:
        name, _, value = word.partition("=")
        if (
            not re.fullmatch(r"\+?[A-Za-z][A-Za-z0-9_]*", name)
            or not value
            or not VALUE.fullmatch(value)
        ):
            form = "submit commands with their value, no $, and no \\ at the end"
            refuse(word, f"{form}, as in +WantFlocking=True")
        plain = name.lower().lstrip("+")
        own = (*NATIVE_OWN, *(word.replace("_", "") for word in NATIVE_OWN))
        if plain.startswith(own):
            refuse(
                word, "commands that Koala neither sets nor counts; see docs: attributes of jobs"
            )
        check_allowed(name, allowed)
    return words


class HTCondorTable(LRMTable, frozen=True):
    """Accounting group of all claims, and the `requirements` on machines that are used."""

    project: str = ""
    requirements: str = ""


SYSTEM = BatchSystem(
    kind="htcondor",
    title="HTCondor",
    place="an HTCondor pool",
    settings=HTCondorTable,
    template=files("koala_agent.lrm.batch") / "htcondor.toml",
    dialect=made_as(HTCondor),
    programs=(
        *("condor_submit", "condor_q", "condor_rm", "condor_qedit", "condor_history"),
        "condor_status",
    ),
    found_by=("condor_submit",),
    variables=("CONDOR_CONFIG",),
    job_variables=("_CONDOR_JOB_AD", "_CONDOR_*", "TMP", "TEMP", "TMPDIR"),
    lists_gpus=True,
    tried_with="23.9.6",
)
