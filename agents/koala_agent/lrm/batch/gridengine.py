"""The dialect of Grid Engine (Son of Grid Engine 8.1 and its relatives): `qsub`, `qstat`, `qacct`.

- The script goes in by standard input: with `-b y` its arguments would pass through a shell once
  more, and lose their quoting. `-r n`: never run again after a crash. `-notify` lets TERM come
  before KILL where the site has set NOTIFY_KILL=TERM.
- A job that ends leaves `qstat` at once and comes to `qacct` a second or two later; one that was
  dequeued while it waited never does.
- `-w e`: a request that could not be met by the empty cell is refused at once, and not kept for
  ever. (`-w p` would ask whether it starts now; but a claim may wait for its grace time.)
- State E (a wrong output path, a prolog that failed) stays in the queue until qdel: it is stuck.
- Managers and the users of the list `arusers` book by `qrsub`. The end of an advance reservation
  ends its jobs, and so does `qrdel`.
- An exit status of 99 or 100 of the script would mean "run it again" (even with `-r n`) and "keep
  it as an error"; the starter always exits with 0, a script that cannot begin exits with 71, and
  what is seen to run again is taken out.
"""

from __future__ import annotations

import math
import re
import shlex
import xml.etree.ElementTree as ET
from collections.abc import Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from datetime import datetime
from fnmatch import fnmatchcase as fnmatch
from importlib.resources import files
from signal import SIGKILL, SIGTERM, SIGUSR1, SIGUSR2, SIGXCPU
from typing import Annotated

import msgspec

from koala.common.protocol.messages import Queue, Resources, SiteResources
from koala.common.runtime.settings_file import matching
from koala.errors import ConfigError, LocalManagerError
from koala_agent.lrm.batch.limits.quotas import Place, Set, idle_within, largest, quotas_of
from koala_agent.lrm.batch.native import check_allowed, check_pairs, native_words, refuse
from koala_agent.lrm.batch.slurm_queue import by_priority
from koala_agent.lrm.batch_system import (
    Answers,
    BatchSystem,
    DialectSettings,
    LRMTable,
    Setting,
)
from koala_agent.lrm.dialect import (
    DIGITS_MAX,
    LATE_S,
    PREFIX,
    BatchJob,
    Booker,
    Booking,
    Dialect,
    Figures,
    Gate,
    JobState,
    Limits,
    QueueRow,
    check_status,
    honoured,
    is_count,
    user_hold,
)
from koala_agent.lrm.local_manager import OUTPUT_FILE, EndCause, Placeholder, RequestRefusedError
from koala_agent.starter.batch_rules import BatchRules
from koala_agent.transport.interface import Answer, Command, CommandRunner

KEEP_S = 600.0
QUOTAS = Command(argv=("qconf", "-srqs"), keep_s=KEEP_S)
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

HONOURED = ("gpus", "constraint", "licenses", "exclusive", "reservation")
"""Requests of jobs that it always acts on; resources are complexes of the cell (`qconf -sc`)."""

FEATURE = re.compile(r"[A-Za-z_][A-Za-z0-9_.]*")
SHUT = {
    "D": "its calendar has switched it off",
    "C": "its calendar has suspended it",
    "d": "it is disabled",
    "s": "it is suspended",
    "S": "another queue suspends it",
    "E": "it is in error",
    "u": "its hosts give no answer",
    "a": "its hosts are overloaded",
}
"""Words for states of queues."""
LISTINGS = ("qstat", "qstat", "qhost")
CLOCK = "%Y-%m-%dT%H:%M:%S"

LIST_BOOKINGS = f"""\
date '+%s {CLOCK}' && rows=$(qrstat -u '*') || exit
ids=$(echo "$rows" | sed -n 's/^ *\\([0-9][0-9]*\\) .*/\\1/p' | paste -s -d , -)
if [ -n "$ids" ]; then qrstat -ar "$ids" -xml; else echo '<none/>'; fi
exit 0
"""
BOOKINGS = Command(argv=("/bin/sh", "-c", LIST_BOOKINGS))
"""The time now, since the epoch and on the clock of the cell, then all advance reservations with
their slots, which a listing lacks. One may have ended meanwhile."""

BOOK = """\
at=$(date -d "@$1" +%Y%m%d%H%M.%S) || exit
shift
exec qrsub -a "$at" "$@"
"""
"""$1 is the begin in seconds since the epoch, as the cell wants its own clock; then options."""

REFUSALS = re.compile(r"(?i)no suitable|exceed|limit")
"""Messages of qsub for a request that the cell refuses; the site works."""

FAULTS = re.compile(r"(?i)unknown|denied|not allowed|does not exist|invalid|is not|no access")
"""Messages for wrong options, which stay wrong. Any other error is transient."""

AWAY = re.compile(r"(?i)unable to (?:contact|send|connect)|can't connect|commlib error|got no")


NATIVE_OPTIONS = (
    *("-l", "-p", "-R", "-A", "-ac", "-dc", "-sc", "-ar", "-js", "-jc", "-c", "-ckpt", "-masterq"),
    *("-binding", "-m", "-M", "-mods"),
)
"""Options of `qsub` that jobs may give, each with one value. Any other word could be a script."""
NATIVE_OWN = ("h_rt", "s_rt", "slots", "s")
"""Resources of `-l` that Koala sets."""


@dataclass(frozen=True, slots=True, kw_only=True)
class GridEngine(Dialect):
    """Submission options of the site; empty ones are left to Grid Engine.

    Of `gpus`, the sum of the cell, Grid Engine only lists the idle ones, as `gpu_resource`: a
    complex that is consumed once for each job. `user` submits all claims; empty where each runs as
    its owner, whose quotas it alone knows.
    """

    parallel_environment: str
    queue: str = ""
    project: str = ""
    options: tuple[str, ...] = ()
    native: tuple[str, ...] = ()
    gpus: int = 0
    gpu_resource: str = "gpu"
    user: str = ""

    @property
    def honours(self) -> tuple[str, ...]:
        """See Dialect. Hosts are what the parallel environment's rule makes of them, and memory has
        no resource that all cells share."""
        site = {"queue": self.queue, "project": self.project}
        return honoured(HONOURED, site, self.native)

    def submit(self, placeholder: Placeholder, *, name: str, script: str) -> Command:
        argv = [
            "qsub",
            "-terse",
            "-w",
            "e",
            "-r",
            "n",
            "-notify",
            "-j",
            "y",
            "-S",
            "/bin/bash",
            "-N",
            name,
        ]
        argv += ["-pe", self.parallel_environment, str(placeholder.processors)]
        out = "/dev/null" if placeholder.body else str(placeholder.directory / OUTPUT_FILE)
        argv += ["-o", out]
        if placeholder.body:
            argv += ["-wd", "/"]  # the account's home, where it would begin, need not be there
        if placeholder.time_limit_s < math.inf:
            argv += ["-l", f"h_rt={math.ceil(placeholder.time_limit_s)}"]
        asked = placeholder.resources
        for option, value in (
            ("-q", self.queue or asked.queue),
            ("-P", self.project or asked.project),
            ("-l", ",".join(self._resources(asked, placeholder.processors))),
        ):
            if value:
                argv += [option, value]
        native: list[str] = []
        if asked.native:
            native = self._native_options(asked.native, placeholder.processors)
        gate = ("-h",) if placeholder.is_gated else ()
        if reservation := placeholder.booking or asked.reservation:
            argv += ["-ar", reservation]
        return Command(argv=(*argv, *self.options, *native, *gate), stdin=script)

    def _native_options(self, text: str, processors: int) -> list[str]:
        """Return a job's options for `qsub`: those with one value, `-soft` and `-hard` around them,
        and another parallel environment for as many slots. Raises RequestRefusedError."""
        words = native_words(text)
        at = words.index("-pe") if "-pe" in words else len(words)
        pe, slots = words[at : at + 3], words[at + 2 : at + 3]
        if pe and (slots != [str(processors)] or words[at + 1].startswith("-")):
            refuse(" ".join(pe), f"-pe NAME {processors}, as many slots as the job has processors")
        rest = [*words[:at], *words[at + 3 :]]
        plain = [word for word in rest if word not in ("-soft", "-hard")]
        own = (*NATIVE_OWN, self.gpu_resource)
        check_pairs(plain, self.native, options=NATIVE_OPTIONS, own=own, signed="-p")
        if pe:
            check_allowed("-pe", self.native)
        return [*pe, *rest, *(["-hard"] if "-soft" in rest else [])]

    def _resources(self, asked: Resources, processors: int) -> list[str]:
        """Return what a job requests with `-l`. Raises RequestRefusedError for a constraint that
        is no list of features."""
        features = asked.constraint.split("&") if asked.constraint else []
        if wrong := next((word for word in features if not FEATURE.fullmatch(word)), ""):
            message = f"constraint: {wrong!r} is refused (expected features joined by &)"
            raise RequestRefusedError(message)
        found = [f"{name}={count}" for name, count in asked.licenses]
        found += [f"{word}=TRUE" for word in features]
        if asked.is_exclusive:
            found.append("exclusive=TRUE")
        if asked.gpus:
            found.append(f"{self.gpu_resource}={asked.gpus}")
        return found

    def read_submitted(self, answer: Answer) -> str:
        """See Dialect; warnings may come before the number."""
        numbers = re.findall(r"^([0-9]{1,15})\s*$", answer.out, re.MULTILINE)
        if answer.status == 0 and numbers:
            return str(numbers[-1])
        complaint = answer.complaint()
        message = f"qsub: {complaint}"
        is_away = AWAY.search(answer.err) is not None
        if REFUSALS.search(complaint) is not None and not is_away:
            raise RequestRefusedError(message)
        is_final = FAULTS.search(complaint) is not None and not is_away
        raise LocalManagerError(message, transient=not is_final)

    def list_jobs(self) -> Command:
        """See Dialect: those of everybody, because the account's name may be another's here."""
        return Command(argv=("qstat", "-u", "*", "-xml"))

    def list_all(self) -> Command:
        """See Dialect: with the requests of jobs."""
        return Command(argv=("qstat", "-u", "*", "-r", "-xml"))

    def read_jobs(self, answer: Answer) -> list[BatchJob]:
        rows = [_row(row) for row in _tree(answer, "qstat").iter("job_list")]
        return sorted(rows, key=lambda job: int(job.number))

    def withdraw(self, number: str) -> Command:
        return Command(argv=("qdel", number))

    def read_withdrawn(self, answer: Answer) -> None:
        """See Dialect; qdel exits with 1 for a job that has ended."""
        if answer.status != 0 and "does not exist" not in answer.out + answer.err:
            raise LocalManagerError(f"qdel: {answer.complaint()}", transient=True)

    def record(self, number: str) -> Command:
        return Command(argv=("qacct", "-j", number))

    def read_record(self, answer: Answer, *, number: str, name: str) -> BatchJob | None:
        """See Dialect; the last record of a reused number is ours, if it has our name."""
        if answer.status != 0:
            return None  # the accounting file is written late, and for some jobs never
        last = answer.out.split(RECORD_RULE)[-1]
        fields = dict(re.findall(r"^(\w+) +(.*?) *$", last, re.MULTILINE))
        if fields.get("jobname") != name:
            return None
        return _ended(number, name, fields)

    def figures(self) -> tuple[Command, ...]:
        """See Dialect: the queues of the parallel environment, who waits, what hosts have, and what
        is booked."""
        where = ("-q", self.queue) if self.queue else ()
        resources = f"slots,{self.gpu_resource}" if self.gpus else "slots"
        queues = ("qstat", "-g", "c", "-pe", self.parallel_environment, *where, "-xml")
        return (
            Command(argv=queues, keep_s=KEEP_S),
            self.list_all(),
            Command(argv=("qhost", "-q", "-F", resources, "-xml")),
            QUOTAS,
            BOOKINGS,
        )

    def read_figures(self, answers: tuple[Answer, ...]) -> Figures:
        """See Dialect. Queues may share the slots of their hosts, so these are counted. Slots that
        are disabled, suspended or in error count as neither idle nor there, and those beyond the
        resource quotas of our user are not idle."""
        *listings, quotas, bookings = answers
        summary, jobs, hosts = (
            _tree(answer, name) for answer, name in zip(listings, LISTINGS, strict=True)
        )
        ours = {queue.findtext("name") or "" for queue in summary.iter("cluster_queue_summary")}
        every = [_Host.read(host) for host in hosts.iter("host")]
        here = {host.name: host for host in every if ours & host.queues.keys()}
        waiting = []
        for row in jobs.iter("job_list"):
            nodes = frozenset(here).intersection(_may_take(row, every))
            if _has_a_right(row) and nodes:
                number, slots = row.findtext("JB_job_number") or "", _count(row, "slots")
                waiting.append(
                    QueueRow(number=number, processors=slots, left_s=math.inf, nodes=nodes)
                )
        idle_at = {name: host.idle(ours) for name, host in here.items()}
        closed = sum(host.closed(ours) for host in here.values())
        running = [row for row in jobs.iter("job_list") if row.get("state") == "running"]

        def slots_of_user(place: Place | None) -> int:
            return sum(
                _count(row, "slots")
                for row in running
                if row.findtext("JB_owner") == self.user
                and (place is None or row.findtext("queue_name") == f"{place.queue}@{place.host}")
            )

        within = idle_within(
            self._quotas(quotas),
            [
                Place(queue=name, host=host.name, used=one.used, idle=one.idle)
                for host in here.values()
                for name, one in host.queues.items()
                if name in ours
            ],
            ours=slots_of_user,
            all_running=sum(_count(row, "slots") for row in running),
        )
        beyond = max(0, (all_idle := sum(idle_at.values())) - within)
        return Figures(
            processors=sum(host.processors(ours) for host in here.values()),
            idle=all_idle - beyond,
            shut=beyond,
            queued_jobs=len(waiting),
            idle_gpus=min(self.gpus, _idle_gpus(hosts, self.gpu_resource)),
            resources=SiteResources(gpus=self.gpus),
            waiting=tuple(waiting),
            idle_at=idle_at,
            closed=tuple(
                f"{count} {words}"
                for count, words in (
                    (closed, "in queues that are disabled, suspended or in error"),
                    (beyond, f"beyond what resource quotas allow {self.user}"),
                )
                if count
            ),
            shut_queues=_shut_queues(every),
            booked=()
            if bookings.status
            else tuple(one.left(running, ours) for one in _read_bookings(bookings)),
        )

    def _quotas(self, answer: Answer) -> tuple[Set, ...]:
        return quotas_of(
            answer.out if answer.status == 0 else "",
            user=self.user,
            parallel_environment=self.parallel_environment,
            project=self.project,
        )

    def list_queue(self) -> Command:
        """See Dialect: with the requests of jobs, and the time on the clock of the cell."""
        where = ("-q", self.queue) if self.queue else ()
        words = shlex.join(("qstat", "-u", "*", *where, "-r", "-xml"))
        return Command(argv=("/bin/sh", "-c", f"date +{CLOCK} && exec {words}"))

    def read_queue(self, answer: Answer) -> tuple[QueueRow, ...]:
        """See Dialect. A job without `h_rt` may run for ever; only held jobs of agents count."""
        check_status(answer, "qstat")
        clock, _, listing = answer.out.partition("\n")
        now = _instant(clock)
        tree = _tree(replace(answer, out=listing), "qstat")
        running, waiting = [], []
        for row in tree.iter("job_list"):
            job = _row(row)
            if "h" in (row.findtext("state") or "") and not job.name.startswith(f"{PREFIX}-"):
                continue
            limits = [one.text for one in row.iter("hard_request") if one.get("name") == "h_rt"]
            limit_s = float(limits[0] or 0) if limits and is_count(limits[0] or "") else math.inf
            is_running = job.state is JobState.RUNNING
            begun = row.findtext("JAT_start_time")
            used_s = 0.0 if begun is None else max(0.0, (now - _instant(begun)).total_seconds())
            one = QueueRow(
                number=job.number,
                processors=_count(row, "slots"),
                left_s=max(0.0, limit_s - used_s),
                is_running=is_running,
            )
            if is_running:
                running.append(one)
            elif job.state is JobState.QUEUED:
                priority = re.sub(r"\D", "", row.findtext("JAT_prio") or "")
                waiting.append((one, int(priority[:DIGITS_MAX] or 0)))
        return (*running, *by_priority(waiting))

    def limits(self) -> tuple[Command, ...]:
        """See Dialect: all queues, the complexes, which may be forced, and resource quotas."""
        return (Command(argv=("qconf", "-sq", "*")), Command(argv=("qconf", "-sc")), QUOTAS)

    def read_limits(self, answers: tuple[Answer, ...]) -> Limits:
        """See Dialect. A job goes to any queue with our parallel environment, so that the shortest
        of their times is what one without a request may get."""
        *texts, quotas = answers
        queues, complexes = (answer.out if answer.status == 0 else "" for answer in texts)
        slots = largest(self._quotas(quotas))
        is_forced = re.search(r"^h_rt\s+\S+\s+TIME\s+\S+\s+FORCED", complexes, re.MULTILINE)
        found = []
        for text in re.split(r"^(?=qname )", queues.replace("\\\n", ""), flags=re.MULTILINE):
            fields = dict(re.findall(r"^(\w+) +(.*?) *$", text, re.MULTILINE))
            name = fields.get("qname", "")
            if name:
                is_ours = self.parallel_environment in re.split(r"[\s,]+", fields["pe_list"])
                times = [_limit_s(fields.get(key, "")) for key in ("s_rt", "h_rt")]
                is_default = name == self.queue.partition("@")[0] if self.queue else is_ours
                found.append((name, min(times), is_default))
        usual_s = min((limit_s for _, limit_s, is_default in found if is_default), default=math.inf)
        return Limits(
            queues=tuple(
                Queue(
                    name=name,
                    is_default=is_default,
                    longest_s=limit_s if limit_s < math.inf else 0.0,
                    usual_s=least_s if (least_s := min(usual_s, limit_s)) < math.inf else 0.0,
                    must_ask=is_forced is not None,
                    processors=slots if is_default else 0,
                )
                for name, limit_s, is_default in found
            )
        )

    def read_gates(self, answers: tuple[Answer, ...]) -> tuple[Gate, ...]:
        """See Dialect: a job is sorted in by its priority and its number, held or not."""
        return (user_hold(("qhold",), ("qrls",), read=_read_hold),)

    def reservations(self) -> Command:
        """See Dialect: advance reservations."""
        return BOOKINGS

    def read_reservations(self, answer: Answer) -> Sequence[Booking]:
        """See Dialect."""
        return [one.booking for one in _read_bookings(answer)]

    def booking(self) -> tuple[Command, ...]:
        """See Dialect: managers, and the users of the list `arusers`."""
        if not self.user:
            return ()
        return (Command(argv=("qconf", "-su", "arusers")), Command(argv=("qconf", "-sm")))

    def read_booking(self, answers: tuple[Answer, ...]) -> Booker | None:
        """See Dialect: advance reservations."""
        if not answers:
            return None
        listed, managers = (
            one.out.replace("\\\n", "") if not one.status else "" for one in answers
        )
        entries = ",".join(re.findall(r"^entries +(.*)$", listed, re.MULTILINE)).split(",")
        if self.user not in {*(name.strip() for name in entries), *managers.split()}:
            return None
        return Booker(
            name="qrsub",
            book=self._book,
            read_booked=_read_booked,
            list=BOOKINGS,
            read_list=self._read_own_bookings,
            delete=lambda number: Command(argv=("qrdel", number)),
            read_deleted=_read_unbooked,
        )

    def _read_own_bookings(self, answer: Answer) -> list[Booking]:
        return [one.booking for one in _read_bookings(answer) if one.owner == self.user]

    def _book(self, placeholder: Placeholder, name: str) -> Command:
        asked, processors = placeholder.resources, placeholder.processors
        argv = ["-N", name, "-d", str(math.ceil(placeholder.time_limit_s + LATE_S))]
        argv += ["-pe", self.parallel_environment, str(processors)]
        for option, value in (
            ("-q", self.queue or asked.queue),
            ("-l", ",".join(self._resources(asked, processors))),
        ):
            if value:
                argv += [option, value]
        at = str(math.ceil(placeholder.begins_at))
        return Command(argv=("/bin/sh", "-c", BOOK, "koala-book", at, *argv))


def _read_booked(answer: Answer) -> str:
    found = re.search(r"advance reservation ([0-9]{1,15}) has been granted", answer.out)
    if found is not None:
        return found[1]
    message = f"qrsub: {answer.complaint() or answer.out.strip()}"
    if answer.status == 0 or AWAY.search(answer.err):
        raise LocalManagerError(message, transient=True)
    raise RequestRefusedError(message)


@dataclass(frozen=True, slots=True, kw_only=True)
class _Reservation:
    """Advance reservation, with the slots that it has of each queue at a host."""

    booking: Booking
    owner: str
    start: str
    slots: dict[str, int]

    def left(self, running: Iterable[ET.Element], ours: Collection[str]) -> Booking:
        """Return it with what it has of our queues and no job uses. No listing tells which jobs are
        in it: an agent's by its name, else those of its owner that began there since its start."""
        name = self.booking.name
        granted = sum(n for place, n in self.slots.items() if place.partition("@")[0] in ours)
        inside = sum(
            _count(row, "slots")
            for row in running
            if row.findtext("JB_owner") == self.owner
            and row.findtext("queue_name") in self.slots
            and (not name.startswith(f"{PREFIX}-") or row.findtext("JB_name") == name)
            and (row.findtext("JAT_start_time") or "") >= self.start
        )
        return replace(self.booking, processors=max(0, granted - inside))


def _read_bookings(answer: Answer) -> list[_Reservation]:
    """Read the advance reservations that have not ended. In the states W and E (warning, error) a
    host or queue of it is not available."""
    check_status(answer, "qrstat")
    clocks, _, listing = answer.out.partition("\n")
    epoch, _, clock = clocks.partition(" ")
    if not is_count(epoch):
        raise LocalManagerError(f"qrstat: no time in {clocks[:80]!r}", transient=True)
    found = []
    for row in _tree(replace(answer, out=listing), "qrstat").iter("ar_summary"):
        number, state = row.findtext("id") or "", row.findtext("state") or ""
        if not is_count(number) or state in ("d", "x"):
            continue
        start, end = row.findtext("start_time") or "", row.findtext("end_time") or ""
        begins_at, ends_at = (
            float(epoch) + (_instant(text) - _instant(clock)).total_seconds()
            for text in (start, end)
        )
        is_bad = state in ("W", "E")
        booking = Booking(
            number=number,
            name=row.findtext("name") or "",
            trouble=f"state {state}: a host or queue of it is not available" if is_bad else "",
            begins_at=begins_at,
            ends_at=ends_at,
        )
        slots = {
            one.get("queue_instance") or "": int(one.get("slots") or 0)
            for one in row.iter("granted_slots")
        }
        owner = row.findtext("owner") or ""
        found.append(_Reservation(booking=booking, owner=owner, start=start, slots=slots))
    return found


def _read_unbooked(answer: Answer) -> None:
    if answer.status != 0 and "does not exist" not in answer.out + answer.err:
        raise LocalManagerError(f"qrdel: {answer.complaint()}", transient=True)


def _instant(text: str) -> datetime:
    """Parse a time of the cell, which names no zone; the calendar's first for any other text."""
    try:
        return datetime.fromisoformat(text.strip()).replace(tzinfo=None)
    except ValueError:
        return datetime.min  # noqa: DTZ901 - as all times here


def _limit_s(text: str) -> float:
    """Return a time limit of a queue, the longest where hosts have others; infinite for none."""
    found = re.findall(r"(?:^|=|,)(?:([0-9]{1,6}):([0-9]{1,2}):([0-9]{1,2})|([0-9]{1,9}))", text)
    times = [float(whole or int(h) * 3600 + int(m) * 60 + int(s)) for h, m, s, whole in found]
    return max(times, default=math.inf) if "INFINITY" not in text.upper() else math.inf


def _read_hold(answer: Answer) -> None:
    """Check the answer of qhold and qrls, which has a line for each job that it did not change."""
    lines = (answer.out + answer.err).splitlines()
    wrong = [line for line in lines if line.startswith("denied") and "does not exist" not in line]
    if wrong:
        raise RequestRefusedError(f"qhold: {'; '.join(wrong)[:300]}")
    if answer.status != 0 and not any("does not exist" in line for line in lines):
        raise LocalManagerError(f"qhold: {answer.complaint()}", transient=True)


@dataclass(frozen=True, slots=True, kw_only=True)
class _Host:
    """A host with its queues, and the slots that all of them together may still give."""

    name: str
    free: float
    queues: dict[str, _Slots]

    @classmethod
    def read(cls, host: ET.Element) -> _Host:
        free = [one.text or "" for one in host.iter("resourcevalue") if one.get("name") == "slots"]
        queues = {queue.get("name") or "": _Slots.read(queue) for queue in host.iter("queue")}
        limit = (
            float(free[0]) if free and re.fullmatch(r"[0-9]{1,9}(\.[0-9]*)?", free[0]) else math.inf
        )
        return cls(name=host.get("name") or "", free=limit, queues=queues)

    def idle(self, ours: Collection[str]) -> int:
        idle = sum(one.idle for name, one in self.queues.items() if name in ours)
        return int(min(idle, self.free))

    def processors(self, ours: Collection[str]) -> int:
        used = sum(one.used for one in self.queues.values())
        mine = [one for name, one in self.queues.items() if name in ours]
        return int(
            min(sum(one.used if one.is_closed else one.slots for one in mine), self.free + used)
        )

    def closed(self, ours: Collection[str]) -> int:
        """Return what would be idle, too, if all queues took jobs."""
        mine = [one for name, one in self.queues.items() if name in ours]
        whole = sum(one.slots - one.used if one.is_closed else one.idle for one in mine)
        return int(min(whole, self.free)) - self.idle(ours)


@dataclass(frozen=True, slots=True, kw_only=True)
class _Slots:
    """Slots of a queue on one host."""

    slots: int
    used: int
    state: str

    @classmethod
    def read(cls, queue: ET.Element) -> _Slots:
        told = {one.get("name"): (one.text or "").strip() for one in queue.iter("queuevalue")}
        slots, used = told.get("slots", ""), told.get("slots_used", "")
        if not (is_count(slots) and is_count(used)):
            raise LocalManagerError(f"qhost: {slots!r} is not a number of slots", transient=True)
        return cls(slots=int(slots), used=int(used), state=told.get("state_string", ""))

    @property
    def is_closed(self) -> bool:
        return re.search(r"[aAcCdDEosSu]", self.state) is not None

    @property
    def idle(self) -> int:
        return 0 if self.is_closed else max(0, self.slots - self.used)


def _shut_queues(hosts: Collection[_Host]) -> dict[str, str]:
    """Say why queues start no job on any host."""
    states: dict[str, set[str]] = {}
    for host in hosts:
        for name, slots in host.queues.items():
            states.setdefault(name, set()).add(slots.state if slots.is_closed else "")
    return {
        name: next((words for letter, words in SHUT.items() if letter in state), "it is closed")
        for name, found in states.items()
        if "" not in found and (state := "".join(sorted(found)))
    }


def _may_take(row: ET.Element, hosts: Collection[_Host]) -> frozenset[str]:
    """Return the hosts of the queues that a waiting job asks for, which take jobs now."""
    asked = [one.text or "" for one in row.iter("hard_req_queue")] or ["*"]
    return frozenset(
        host.name
        for host in hosts
        for queue, slots in host.queues.items()
        if not slots.is_closed
        and any(fnmatch(f"{queue}@{host.name}", one if "@" in one else f"{one}@*") for one in asked)
    )


def _idle_gpus(hosts: ET.Element, resource: str) -> int:
    """Sum up what is left of a resource on the hosts."""
    values = [
        float(value.text or 0)
        for value in hosts.iter("resourcevalue")
        if value.get("name") == resource
        and re.fullmatch(r"[0-9]{1,9}(\.[0-9]*)?", value.text or "")
    ]
    return int(sum(values))


def _has_a_right(row: ET.Element) -> bool:
    """Test for a job that waits for processors: not held, not in error."""
    letters = row.findtext("state") or ""
    return _state(letters) is JobState.QUEUED and "h" not in letters


def _tree(answer: Answer, command: str) -> ET.Element:
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


def _row(row: ET.Element) -> BatchJob:
    number, name = row.findtext("JB_job_number"), row.findtext("JB_name")
    letters = row.findtext("state")
    if number is None or name is None or letters is None or not is_count(number):
        raise LocalManagerError("qstat: a row of a listing lacks its number, name or state")
    return BatchJob(
        number=number,
        name=name,
        owner=row.findtext("JB_owner") or "",
        state=_state(letters),
        cause=EndCause.LOST,
        reason=f"Grid Engine: state {letters}",
        is_again="R" in letters,
        is_gated="h" in letters and _state(letters) is JobState.QUEUED,
    )


def _state(letters: str) -> JobState:
    """Map the state letters: qw, hqw, Rq wait; r, hr, t, s, S, T, dr hold processors; E never
    starts (sge_status(5))."""
    if "E" in letters:
        return JobState.STUCK
    return JobState.QUEUED if "q" in letters else JobState.RUNNING


def _count(queue: ET.Element, name: str) -> int:
    text = queue.findtext(name) or "0"
    if not is_count(text):
        raise LocalManagerError(f"qstat: {name} = {text!r} is not a number of processors")
    return int(text)


def _ended(number: str, name: str, fields: dict[str, str]) -> BatchJob:
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


class GridEngineTable(LRMTable, frozen=True, kw_only=True):
    """Parallel environment, queue and project of all claims; `gpu_resource` is the complex that
    counts the cell's GPUs."""

    queue: str = ""
    parallel_environment: Annotated[str, msgspec.Meta(min_length=1)]
    project: str = ""
    gpu_resource: Annotated[
        str, matching(r"^[A-Za-z_][A-Za-z0-9_.]{0,63}$", "the name of a complex")
    ] = "gpu"


def _dialect(table: GridEngineTable, site: DialectSettings) -> Dialect:
    return GridEngine(
        queue=table.queue,
        parallel_environment=table.parallel_environment,
        project=table.project,
        options=table.options,
        native=site.native,
        gpus=site.gpus,
        gpu_resource=table.gpu_resource,
        user=site.user,
    )


async def _check(table: GridEngineTable, site: CommandRunner) -> None:
    """Check the parallel environment: a wrong one looks like a full cell."""
    answer = await site.run(Command(argv=("qconf", "-spl")))
    if answer.status:
        raise LocalManagerError(f"qconf -spl: {answer.complaint()}")
    if table.parallel_environment not in (known := answer.out.split()):
        raise ConfigError(
            f"lrm.parallel_environment = {table.parallel_environment!r} (expected"
            f" {' or '.join(known) or 'one: an administrator makes one with qconf -ap'})"
        )


SURVEY = r"""
for e in $(qconf -spl 2>/dev/null); do say environment $e; done
for n in $(qhost -F gpu 2>/dev/null | sed -n 's/.*:gpu=\([0-9]*\).*/\1/p'); do say gpus $n; done
"""


def _configure(answers: Answers, wishes: Mapping[str, str]) -> Iterator[Setting]:
    """Choose the parallel environment: the wished one, or the only one there is; count GPUs."""
    key, known = "lrm.parallel_environment", answers.get("environment", ())
    wished = wishes.get("parallel_environment", "")
    if wished in known:
        yield Setting(key=key, value=wished, reason="as you wish")
    elif len(known) == 1 and not wished:
        yield Setting(key=key, value=known[0], reason="the only one that `qconf -spl` lists")
    else:
        words = f"choose one that `qconf -spl` lists: {', '.join(known) or 'there is none'}"
        yield Setting(key=key, reason=words, is_needed=True)
    if gpus := sum(int(word) for word in answers.get("gpus", ()) if is_count(word)):
        reason = "free now, by `qhost -F gpu`; give all that there are"
        yield Setting(key="site.gpus", value=gpus, reason=reason)


SYSTEM = BatchSystem(
    kind="gridengine",
    title="Grid Engine",
    place="a Grid Engine cell",
    settings=GridEngineTable,
    template=files("koala_agent.lrm.batch") / "gridengine.toml",
    dialect=_dialect,
    programs=("qsub", "qstat", "qdel", "qhold", "qrls", "qacct", "qconf", "qrsh"),
    found_by=("qsub", "qconf"),
    job_variables=(
        *("JOB_ID", "JOB_NAME", "JOB_SCRIPT", "SGE_TASK_*", "SGE_O_*", "SGE_STD*_PATH"),
        *("SGE_CWD_PATH", "SGE_CKPT_*", "SGE_ACCOUNT", "SGE_JOB_SPOOL_DIR", "SGE_BINDING"),
        *("SGE_RSH_COMMAND", "QUEUE", "PE", "PE_HOSTFILE", "NSLOTS", "NHOSTS", "NQUEUES", "ARC"),
        *("REQUEST", "REQNAME", "RESTARTED", "ENVIRONMENT", "TMP", "TMPDIR"),
    ),
    places=("{SGE_ROOT}", "{SGE_ROOT}/{SGE_CELL}/common"),
    variables=("SGE_ROOT", "SGE_CELL", "SGE_QMASTER_PORT", "SGE_EXECD_PORT", "SGE_ARCH"),
    rules=BatchRules(
        hosts_file_variable="PE_HOSTFILE",
        helpers=("qrsh", "-inherit", "{host}"),
        passes_suspension=True,
        needs_keeper=True,
    ),
    check=_check,
    survey=SURVEY,
    configure=_configure,
    tried_with="Son of Grid Engine 8.1.9",
)
