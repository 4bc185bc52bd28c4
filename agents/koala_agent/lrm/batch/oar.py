"""The dialect of OAR: `oarsub`, `oarstat`, `oardel`, `oarnodes`.

Measured with OAR 2.6.1.

- A claim is `/host=1/core=N`: all its processors are on one machine. The site needs the properties
  `host` and `core`, as oar_resources_init makes them.
- `oarsub` takes a command, which everybody may read, and no script. So the script is a file that
  its owner alone can read, in the claim's folder or else in `~/.koala-oar`; OAR wants the home on
  all machines anyway. The script removes itself when it starts, so that a second start finds
  nothing.
- OAR submits a job again under another number, with the same name, when its machine fails before
  the start. The listing tells (`resubmit_job_id`).
- OAR refuses a request that no machine can meet, and says so.
- The end is KILL, without TERM. A job with a time limit gets TERM before it (`--checkpoint`).
- A job that ends leaves `oarstat`, but not the database: `oarstat -j` is its record.
- All commands but `oarsub` read the database; while that is away they fail or hang.
- Every user may give a job its begin (`oarsub -r`). One that cannot be had is a job in error, and
  begins are up to 44 s late (64 s on a busy machine). Those of others are read, and count as no
  waiting jobs.
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterable
from dataclasses import dataclass, replace
from functools import partial
from importlib.resources import files
from typing import Any

from koala.common.protocol.messages import SiteResources
from koala.errors import LocalManagerError
from koala_agent.lrm.batch.native import option_pairs
from koala_agent.lrm.batch_system import BatchSystem, LRMTable, made_as
from koala_agent.lrm.dialect import (
    LATE_S,
    PREFIX,
    PROCESSORS_MAX,
    BatchJob,
    Booker,
    Booking,
    Dialect,
    Figures,
    Gate,
    JobState,
    QueueRow,
    check_status,
    check_word,
    count_of,
    honoured,
    is_count,
    read_json,
    user_hold,
    with_output,
)
from koala_agent.lrm.local_manager import EndCause, Placeholder, RequestRefusedError
from koala_agent.transport.interface import Answer, Command

HONOURED = ("cpusPerTask", "minMemory", "gpus", "constraint", "licenses", "exclusive")
"""Resources of jobs that it always acts on."""

SUBMIT = """\
umask 077
d=$1 job=$2 at=$3
shift 3
if [ -n "$at" ]; then
  at=$(date -d "@$at" '+%Y-%m-%d %H:%M:%S') || exit 71
  set -- -r "$at" "$@"
fi
if [ -z "$d" ]; then
  d=$HOME/.koala-oar
  find "$d" -name 'koala-*' -type f -mtime +30 -exec rm -f {} + 2>/dev/null
fi
mkdir -p "$d" && cd "$d" || exit 71
cat > "$job.$$" && chmod 700 "$job.$$" && mv "$job.$$" "$job" || exit 71
[ -n "$at" ] || exec oarsub -d "$PWD" "$@" "./$job"
said=$job.$$
timeout 600 oarsub -d "$PWD" "$@" "./$job" < /dev/null > "$said" 2> "$said.err" &
wait $!
status=$?
cat "$said"
cat "$said.err" >&2
rm -f "$said" "$said.err"
exit $status
"""
"""An `oarsub -r` that ends before the scheduler has answered it leaves a job that holds processors
and that no oardel ends for minutes. So it outlives us.

$1 is the folder of the script (empty: one in the home), $2 its name, $3 the begin of a booking
in seconds since the epoch, or empty, standard input the script; the rest are options. Nothing else
cleans the folder in the home, so scripts of jobs that never started are deleted there after 30
days."""

STATES = {
    **dict.fromkeys(("Waiting", "Hold", "toAckReservation"), JobState.QUEUED),
    **dict.fromkeys(("toLaunch", "Launching", "Running", "toError"), JobState.RUNNING),
    **dict.fromkeys(("Suspended", "Resuming", "Finishing"), JobState.RUNNING),
    **dict.fromkeys(("Terminated", "Error"), JobState.ENDED),
}

ENDS = {
    "EXTERMINATE_JOB": EndCause.UNREACHABLE,
    "PING_CHECKER_NODE_SUSPECTED_END_JOB": EndCause.UNREACHABLE,
    "WALLTIME": EndCause.TIME_LIMIT,
    "BESTEFFORT_KILL": EndCause.CANCELLED_BY_SITE,
    "FRAG_JOB_REQUEST": EndCause.CANCELLED_BY_SITE,
}
"""Causes by the kinds of events, the strongest first. Any other end without a status is LOST."""

BEST_EFFORT = "besteffort"
"""Queue and type of jobs that end when others need their processors."""
CHECKPOINT_S = 10
"""Seconds between TERM and the time limit; a job of less than a minute gets no TERM."""
LIMITED = re.compile(r"(?i)quota_exceeded|quota.{0,40}(?:reach|exceed|limit)")
"""The scheduler's message on a job whose user or project has reached a quota."""

WORD = re.compile(r"[A-Za-z0-9_][A-Za-z0-9_.-]{0,99}")
PROPERTY = re.compile(r"[A-Za-z_][A-Za-z0-9_]{0,62}")

REFUSALS = re.compile(r"(?i)not enough resources|ADMISSION RULE|quota|exceed|limit")
"""Messages of oarsub for a request that OAR refuses (for now); the site works."""
FAULTS = re.compile(r"(?i)bad resource request|does not exist|syntax|unknown|invalid|not allowed")
"""Messages for wrong options, which stay wrong. Any other error is transient."""
AWAY = re.compile(r"(?i)DB connection|connect to (?:the )?database|to executor|could not connect")
NO_QUEUE = 248
"""Exit status for a queue that does not exist, which oarsub does not explain."""
GONE = 6
"""Exit status of oardel for a job that is being ended already."""


NATIVE_OPTIONS = ("-p", "-a")
"""Options of `oarsub` that jobs may give, each with one value. `-t` could start a job twice."""


@dataclass(frozen=True, slots=True, kw_only=True)
class OAR(Dialect):
    """Submission options of the site; empty ones are left to OAR.

    With a `queue` only its waiting jobs are counted. Jobs of the queue `besteffort` end when others
    need their processors.
    """

    project: str = ""
    queue: str = ""
    options: tuple[str, ...] = ()
    native: tuple[str, ...] = ()

    @property
    def honours(self) -> tuple[str, ...]:
        """See Dialect. No claim has several machines."""
        site = {"queue": self.queue, "project": self.project}
        return honoured(HONOURED, site, self.native)

    def submit(self, placeholder: Placeholder, *, name: str, script: str) -> Command:
        asked = placeholder.resources
        request, limit_s = _request(placeholder), placeholder.time_limit_s
        argv = ["-n", name, "-O", "/dev/null", "-E", "/dev/null"]
        at = str(math.ceil(placeholder.begins_at)) if placeholder.begins_at else ""
        if limit_s < math.inf:
            # One that begins late loses the time before.
            limit_s = math.ceil(limit_s + (LATE_S if at else 0.0))
            request += f",walltime={limit_s // 3600}:{limit_s // 60 % 60}:{limit_s % 60}"
            if limit_s >= 60:
                argv += ["--checkpoint", str(CHECKPOINT_S), "--signal", "15"]
        argv += ["-l", request]
        queue, project = self.queue or asked.queue, self.project or asked.project
        if queue:
            argv += ["-q", _word("queue", queue)]
        if project:
            argv += ["--project", _word("project", project)]
        native = option_pairs(asked.native, self.native, NATIVE_OPTIONS)
        argv += [*self.options, *native, *(["--hold"] if placeholder.is_gated else [])]
        script = with_output(placeholder, script)
        first, rest = script.split("\n", 1)
        folder = "" if placeholder.body else str(placeholder.directory)
        return Command(
            argv=("/bin/sh", "-c", SUBMIT, "koala-submit", folder, name, at, *argv),
            stdin=f'{first}\nrm -f "$0"\n{rest}',
        )

    def read_submitted(self, answer: Answer) -> str:
        """See Dialect. A job that the server was not told of may be in the database."""
        found = re.search(r"^OAR_JOB_ID=([0-9]{1,15})\s*$", answer.out, re.MULTILINE)
        if answer.status == 0 and found is not None:
            return found[1]
        if invalid := re.search(
            r"Reservation not valid --> KO *\(?(.*?)\)?\s*$", answer.out, re.MULTILINE
        ):
            raise RequestRefusedError(f"oarsub -r: {invalid[1]}")
        if answer.status == NO_QUEUE and not answer.err:
            raise RequestRefusedError("oarsub: OAR has no such queue")
        is_away = AWAY.search(answer.err) is not None
        refused = REFUSALS.search(answer.err) or FAULTS.search(answer.err)
        if is_away or refused is None:
            raise LocalManagerError(f"oarsub: {answer.complaint()}", transient=True)
        line = next(one for one in answer.err.splitlines() if refused[0] in one)
        raise RequestRefusedError(f"oarsub: {line.strip(' #')[:300]}")

    def list_jobs(self) -> Command:
        """See Dialect: the account's own that have not ended."""
        return Command(argv=("oarstat", "-J", "-f", "-u"))

    def read_jobs(self, answer: Answer) -> list[BatchJob]:
        """See Dialect. OAR itself selects the owner."""
        rows = [_row(number, job) for number, job in _table(answer, "oarstat").items()]
        return sorted(rows, key=lambda job: int(job.number))

    def withdraw(self, number: str) -> Command:
        return Command(argv=("oardel", number))

    def read_withdrawn(self, answer: Answer) -> None:
        """See Dialect; of a job that it does not have OAR says that it is another user's."""
        if answer.status not in (0, GONE) and "not the right user" not in answer.err:
            raise LocalManagerError(f"oardel: {answer.complaint()}", transient=True)

    def record(self, number: str) -> Command:
        return Command(argv=("oarstat", "-J", "-f", "-j", number))

    def read_record(self, answer: Answer, *, number: str, name: str) -> BatchJob | None:
        job = _table(answer, "oarstat").get(number)
        return _row(number, job) if job is not None and job.get("name") == name else None

    def figures(self) -> tuple[Command, ...]:
        return (Command(argv=("oarnodes", "-J")), Command(argv=("oarstat", "-J", "-f")))

    def read_figures(self, answers: tuple[Answer, ...]) -> Figures:
        """See Dialect. A row of the listing is a core, or a thread of it. Of what takes no jobs now
        only what is in use is there; processors of best-effort jobs are idle, because they end for
        ours."""
        jobs = _table(answers[1], "oarstat")
        fleeting = {number for number, job in jobs.items() if _is_best_effort(job)}
        if self.queue == BEST_EFFORT:
            fleeting = set()
        rows = _table(answers[0], "oarnodes").values()
        cores = [row for row in rows if row.get("type") == "default" and row.get("core")]
        used = {_core(row) for row in cores if _jobs_of(row) - fleeting}
        closed = {_core(row) for row in cores if row.get("state") != "Alive" or _is(row, "drain")}
        whole = {_core(row) for row in cores}
        cards = {_card(row) for row in cores if row.get("gpu")}
        taken = {_card(row) for row in cores if row.get("gpu") and _core(row) in used | closed}
        machines: dict[str, set[tuple[str, str]]] = {}
        for host, card in cards:
            machines.setdefault(host, set()).add((host, card))
        return Figures(
            processors=min(PROCESSORS_MAX, len(whole - (closed - used))),
            idle=min(PROCESSORS_MAX, len(whole - closed - used)),
            queued_jobs=sum(self._has_a_right(job) for job in jobs.values()),
            booked=tuple(_bookings(jobs)),
            idle_gpus=len(cards - taken),
            resources=SiteResources(
                gpus=min(PROCESSORS_MAX, len(cards)),
                host_gpus=max(map(len, machines.values()), default=0),
                host_memory_mb=max((_count(row.get("mem")) for row in cores), default=0),
            ),
        )

    def list_queue(self) -> Command:
        """See Dialect: all jobs, and the time on the clock of the site."""
        return Command(argv=("/bin/sh", "-c", "date +%s && exec oarstat -J -f"))

    def read_queue(self, answer: Answer) -> tuple[QueueRow, ...]:
        """See Dialect. Jobs are in the order of their numbers; of those on hold only agents' count.
        Best-effort jobs end for ours, unless ours are such."""
        check_status(answer, "oarstat")
        clock, _, listing = answer.out.partition("\n")
        now = _count(clock.strip())
        rows = []
        for number, job in _table(replace(answer, out=listing), "oarstat").items():
            is_held = job.get("state") == "Hold" and str(job.get("name")).startswith(f"{PREFIX}-")
            is_running = STATES.get(str(job.get("state"))) is JobState.RUNNING
            is_fleeting = _is_best_effort(job) and self.queue != BEST_EFFORT
            if is_fleeting or not (is_running or is_held or self._has_a_right(job)):
                continue
            processors, limit_s = _size(job)
            used_s = now - _count(job.get("startTime")) if is_running else 0
            row = QueueRow(
                number=number,
                processors=processors,
                left_s=max(0.0, limit_s - used_s),
                is_running=is_running,
            )
            rows.append(row)
        return tuple(sorted(rows, key=lambda row: (not row.is_running, int(row.number))))

    def read_gates(self, answers: tuple[Answer, ...]) -> tuple[Gate, ...]:
        """See Dialect: the order of jobs is that of their numbers."""
        return (user_hold(("oarhold",), ("oarresume",), read=_read_hold),)

    def read_booking(self, answers: tuple[Answer, ...]) -> Booker:
        """See Dialect: every user may submit a job with a begin, which OAR calls a reservation."""
        return Booker(name="oar")

    def _has_a_right(self, job: dict[str, Any]) -> bool:
        """Test for a job that waits for processors: not for an instant, nor for its quota, nor
        behind ours as best-effort jobs do."""
        is_ours = not self.queue or job.get("queue") == self.queue
        is_waiting = job.get("state") == "Waiting" and job.get("reservation") in (None, "None")
        is_behind = _is_best_effort(job) and self.queue != BEST_EFFORT
        return is_ours and is_waiting and not is_behind and not _is_limited(job)


def _read_hold(answer: Answer) -> None:
    """Check the answer of oarhold and oarresume, which has a line for each job that is not in the
    state for it. Raises LocalManagerError."""
    lines = [line for line in answer.err.splitlines() if line.strip()]
    wrong = [line for line in lines if "not in the" not in line and "does not exist" not in line]
    if answer.status == 0 or (lines and not wrong):
        return
    message = f"oarhold: {'; '.join(wrong)[:300] or answer.complaint()}"
    if "not the right user" in message:
        raise RequestRefusedError(message)
    raise LocalManagerError(message, transient=True)


def _request(placeholder: Placeholder) -> str:
    """Return a claim's resources. Raises RequestRefusedError for an invalid constraint."""
    asked = placeholder.resources
    features = asked.constraint.split("&") if asked.constraint else []
    if wrong := next((word for word in features if not PROPERTY.fullmatch(word)), ""):
        message = f"constraint: {wrong[:80]!r} is refused (expected properties joined by &)"
        raise RequestRefusedError(message)
    terms = [f"{word}='YES'" for word in features]
    if memory_mb := (asked.memory_min_mb or 0) * placeholder.processes:
        terms.append(f"mem>={memory_mb}")
    where = f"{{{' AND '.join(terms)}}}" if terms else ""
    if asked.is_exclusive:
        inside = ""
    elif asked.gpus:
        # Cores of a GPU that is not asked for as a whole could be another job's.
        inside = f"/gpu={asked.gpus}"
    else:
        inside = f"/core={placeholder.processors}"
    licences = (
        f"+{{type='{_word('licenses', kind)}'}}/resource_id={n}" for kind, n in asked.licenses
    )
    return f"{where}/host=1{inside}{''.join(licences)}"


def _word(key: str, text: str) -> str:
    return check_word(key, text, WORD, "letters, digits and _ . -")


def _table(answer: Answer, command: str) -> dict[str, dict[str, Any]]:
    """Parse a listing by number; one without rows is empty text."""
    rows = read_json(answer, command, empty="{}")
    if not isinstance(rows, dict) or not all(
        is_count(number) and isinstance(row, dict) for number, row in rows.items()
    ):
        raise LocalManagerError(
            f"{command}: unexpected output (expected a listing of OAR)", transient=True
        )
    return dict(rows)


_count = partial(count_of, most=2**40)
"""Also of instants."""


def _is(row: dict[str, Any], name: str) -> bool:
    return row.get(name) == "YES"


def _core(row: dict[str, Any]) -> tuple[str, str]:
    return str(row.get("network_address")), str(row.get("core"))


def _card(row: dict[str, Any]) -> tuple[str, str]:
    return str(row.get("network_address")), str(row.get("gpu"))


def _jobs_of(row: dict[str, Any]) -> set[str]:
    """Return the numbers of the jobs that have a resource, as in `3, 4`."""
    return set(re.findall(r"[0-9]+", str(row.get("jobs") or "")))


def _size(job: dict[str, Any]) -> tuple[int, float]:
    """Return the processors and the time limit of a job, by its message or its walltime."""
    message = str(job.get("message") or "")
    size = re.match(r"R=([0-9]{1,9})\b", message)
    limit = re.search(r"\bW=([0-9]+):([0-9]+):([0-9]+)", message)
    hours, minutes, seconds = (0, 0, 0) if limit is None else map(int, limit.groups())
    limit_s = _count(job.get("walltime")) or hours * 3600 + minutes * 60 + seconds
    return 0 if size is None else int(size[1]), float(limit_s or math.inf)


def _bookings(jobs: dict[str, dict[str, Any]]) -> Iterable[Booking]:
    """Read the jobs that have a begin which has not come."""
    for number, job in jobs.items():
        if job.get("state") == "Waiting" and job.get("reservation") == "Scheduled":
            processors, limit_s = _size(job)
            begins_at = float(_count(job.get("startTime")))
            yield Booking(
                number=number,
                name=str(job.get("name") or ""),
                processors=processors,
                size=processors,
                begins_at=begins_at,
                ends_at=begins_at + limit_s,
            )


def _names(values: object) -> Iterable[str]:
    return [str(value) for value in values] if isinstance(values, list) else []


def _is_best_effort(job: dict[str, Any]) -> bool:
    return job.get("queue") == BEST_EFFORT or BEST_EFFORT in _names(job.get("types"))


def _is_limited(job: dict[str, Any]) -> bool:
    return LIMITED.search(str(job.get("message") or "")) is not None


def _row(number: str, job: dict[str, Any]) -> BatchJob:
    word = str(job.get("state"))
    if word not in STATES:
        raise LocalManagerError(f"oarstat: job {number} has no state", transient=True)
    state, cause, exit_status, reason = STATES[word], EndCause.LOST, None, ""
    if state is JobState.ENDED:
        cause, exit_status, reason = _end(word, job)
    return BatchJob(
        number=number,
        name=str(job.get("name") or ""),
        state=state,
        cause=cause,
        exit_status=exit_status,
        reason=reason,
        is_again=_count(job.get("resubmit_job_id")) > 0,
        is_limited=state is JobState.QUEUED and _is_limited(job),
        is_gated=word == "Hold",
    )


def _end(word: str, job: dict[str, Any]) -> tuple[EndCause, int | None, str]:
    """Read the end of a job: its status, or else what happened to it."""
    events = job.get("events")
    kinds = [str(one.get("type")) for one in events or [] if isinstance(one, dict)]
    notable = ", ".join(kind for kind in kinds if not kind.startswith("SWITCH"))
    reason = f"OAR: {word}: {notable}" if notable else f"OAR: {word}"
    status = job.get("exit_code")
    if word == "Terminated" and is_count(str(status)):
        signal, code = int(str(status)) & 0x7F, int(str(status)) >> 8 & 0xFF
        return EndCause.EXITED, -signal if signal else code, ""
    message = str(job.get("message"))
    if message.startswith("This reservation c"):  # cannot, or could, run
        return EndCause.WITHDRAWN, None, f"oarsub -r: {message}"
    cause = next((ENDS[kind] for kind in ENDS if kind in kinds), EndCause.LOST)
    return cause, None, reason


class OARTable(LRMTable, frozen=True):
    """Project and queue of all claims; empty ones are left to OAR."""

    project: str = ""
    queue: str = ""


SYSTEM = BatchSystem(
    kind="oar",
    title="OAR",
    place="an OAR server",
    settings=OARTable,
    template=files("koala_agent.lrm.batch") / "oar.toml",
    dialect=made_as(OAR),
    programs=("oarsub", "oarstat", "oardel", "oarhold", "oarresume", "oarnodes"),
    found_by=("oarsub",),
    job_variables=("OAR_JOB_ID", "OAR_*"),
    lists_gpus=True,
    tried_with="2.6.1",
)
