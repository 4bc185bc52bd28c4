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
from dataclasses import dataclass, replace

from koala.common.protocol.messages import Queue, Resources, SiteResources
from koala.errors import LocalManagerError
from koala_agent.lrm.batch.gridengine.hosts import Host, idle_gpus, may_take, shut_queues
from koala_agent.lrm.batch.gridengine.jobs import (
    RECORD_RULE,
    has_a_right,
    instant,
    job_of,
    record_of,
    slots_of,
    tree_of,
)
from koala_agent.lrm.batch.gridengine.quotas import Place, Set, idle_within, largest, quotas_of
from koala_agent.lrm.batch.gridengine.reservations import (
    AWAY,
    BOOK,
    BOOKINGS,
    CLOCK,
    read_booked,
    read_bookings,
    read_unbooked,
)
from koala_agent.lrm.batch.native import check_allowed, check_pairs, native_words, refuse
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
    by_priority,
    check_status,
    honoured,
    is_count,
    submission_error,
    user_hold,
)
from koala_agent.lrm.local_manager import OUTPUT_FILE, Placeholder, RequestRefusedError
from koala_agent.transport.interface import Answer, Command

KEEP_S = 600.0
LIST_QUOTAS = """\
all=$(qconf -srqs 2>&1) || case $all in *"o resource quota set"*) exit 0;; *) exit 1;; esac
echo "$all"
"""
QUOTAS = Command(argv=("/bin/sh", "-c", LIST_QUOTAS), keep_s=KEEP_S)
"""`qconf` fails where there are none, and what fails is not kept."""


HONOURED = ("gpus", "constraint", "licenses", "exclusive", "reservation")
"""Requests of jobs that it always acts on; resources are complexes of the cell (`qconf -sc`)."""
FEATURE = re.compile(r"[A-Za-z_][A-Za-z0-9_.]*")
LISTINGS = ("qstat", "qstat", "qhost")


REFUSALS = re.compile(r"(?i)no suitable|exceed|limit|advance reservation")
"""Messages of qsub for a request that the cell refuses; the site works."""
FAULTS = re.compile(r"(?i)unknown|denied|not allowed|does not exist|invalid|is not|no access")
"""Messages for wrong options, which stay wrong. Any other error is transient."""


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
        argv = ["qsub", "-terse", "-w", "e", "-r", "n", "-notify", "-j", "y", "-S", "/bin/bash"]
        argv += ["-N", name]
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
        check_pairs(plain, self.native, NATIVE_OPTIONS, own, signed="-p")
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
        is_away, complaint = AWAY.search(answer.err) is not None, answer.complaint()
        raise submission_error(f"qsub: {complaint}", complaint, REFUSALS, FAULTS, is_away=is_away)

    def list_jobs(self) -> Command:
        """See Dialect: those of everybody, because the account's name may be another's here."""
        return Command(argv=("qstat", "-u", "*", "-xml"))

    def list_all(self) -> Command:
        """See Dialect: with the requests of jobs."""
        return Command(argv=("qstat", "-u", "*", "-r", "-xml"))

    def read_jobs(self, answer: Answer) -> list[BatchJob]:
        rows = [job_of(row) for row in tree_of(answer, "qstat").iter("job_list")]
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
        return record_of(number, name, fields)

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
            tree_of(answer, name) for answer, name in zip(listings, LISTINGS, strict=True)
        )
        ours = {queue.findtext("name") or "" for queue in summary.iter("cluster_queue_summary")}
        every = [Host.read(host) for host in hosts.iter("host")]
        here = {host.name: host for host in every if ours & host.queues.keys()}
        waiting = []
        for row in jobs.iter("job_list"):
            nodes = frozenset(here).intersection(may_take(row, every))
            if has_a_right(row) and nodes:
                number, slots = row.findtext("JB_job_number") or "", slots_of(row)
                waiting.append(
                    QueueRow(number=number, processors=slots, left_s=math.inf, nodes=nodes)
                )
        idle_at = {name: host.idle(ours) for name, host in here.items()}
        closed = sum(host.closed(ours) for host in here.values())
        running = [row for row in jobs.iter("job_list") if row.get("state") == "running"]

        def slots_of_user(place: Place | None) -> int:
            return sum(
                slots_of(row)
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
            all_running=sum(slots_of(row) for row in running),
        )
        beyond = max(0, (all_idle := sum(idle_at.values())) - within)
        booked = None
        if not bookings.status:
            used = {f"{n}@{host.name}": q.used for host in every for n, q in host.queues.items()}
            booked = tuple(one.left(running, ours, used) for one in read_bookings(bookings))
        return Figures(
            processors=sum(host.processors(ours) for host in here.values()),
            idle=all_idle - beyond,
            shut=beyond,
            queued_jobs=len(waiting),
            idle_gpus=min(self.gpus, idle_gpus(hosts, self.gpu_resource)),
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
            shut_queues=shut_queues(every),
            booked=booked or (),
            reservations=booked,
        )

    def _quotas(self, answer: Answer) -> tuple[Set, ...]:
        return quotas_of(
            answer.out if answer.status == 0 else "",
            user=self.user,
            parallel_environment=self.parallel_environment,
            project=self.project,
        )

    def list_queue(self) -> Command:
        """See Dialect: with the requests of jobs, and the time by which they began."""
        where = ("-q", self.queue) if self.queue else ()
        words = shlex.join(("qstat", "-u", "*", *where, "-r", "-xml"))
        return Command(argv=("/bin/sh", "-c", f"export TZ=UTC0; date +{CLOCK} && exec {words}"))

    def read_queue(self, answer: Answer) -> tuple[QueueRow, ...]:
        """See Dialect. A job without `h_rt` may run for ever; only held jobs of agents count."""
        check_status(answer, "qstat")
        clock, _, listing = answer.out.partition("\n")
        now = instant(clock)
        tree = tree_of(replace(answer, out=listing), "qstat")
        running, waiting = [], []
        for row in tree.iter("job_list"):
            job = job_of(row)
            if "h" in (row.findtext("state") or "") and not job.name.startswith(f"{PREFIX}-"):
                continue
            limits = [one.text for one in row.iter("hard_request") if one.get("name") == "h_rt"]
            limit_s = float(limits[0] or 0) if limits and is_count(limits[0] or "") else math.inf
            is_running = job.state is JobState.RUNNING
            begun = row.findtext("JAT_start_time")
            used_s = 0.0 if begun is None else max(0.0, (now - instant(begun)).total_seconds())
            one = QueueRow(
                number=job.number,
                processors=slots_of(row),
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

    def read_reservations(self, answer: Answer) -> list[Booking]:
        """See Dialect."""
        return [
            replace(one.booking, processors=sum(one.slots.values()))
            for one in read_bookings(answer)
        ]

    def booking(self) -> tuple[Command, ...]:
        """See Dialect: managers, and the users of the list `arusers`."""
        if not self.user:
            return ()
        return (Command(argv=("qconf", "-su", "arusers")), Command(argv=("qconf", "-sm")))

    def read_booking(self, answers: tuple[Answer, ...]) -> Booker | None:
        """See Dialect: advance reservations."""
        if not answers:
            return None
        if AWAY.search(answers[1].err):
            raise LocalManagerError(answers[1].complaint(), transient=True)
        listed, managers = (
            one.out.replace("\\\n", "") if not one.status else "" for one in answers
        )
        entries = ",".join(re.findall(r"^entries +(.*)$", listed, re.MULTILINE)).split(",")
        return Booker(
            is_allowed=self.user in {*(name.strip() for name in entries), *managers.split()},
            name="qrsub",
            book=self._book,
            read_booked=read_booked,
            list=BOOKINGS,
            read_list=self._read_own_bookings,
            delete=lambda number: Command(argv=("qrdel", number)),
            read_deleted=read_unbooked,
        )

    def _read_own_bookings(self, answer: Answer) -> list[Booking]:
        return [one.booking for one in read_bookings(answer) if one.owner == self.user]

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
