"""The dialect of Slurm: `sbatch`, `squeue`, `scancel`, `sinfo`.

- `sbatch` with the script on standard input: nothing on the login node has to live as long as the
  claim. `--no-requeue`, because after a node failure Slurm starts a job again by itself, under the
  same number.
- One listing serves all: our jobs, those that wait before them, and expected starts. Whatever is
  selected, the controller sends all jobs. (`--me` is for the accounts that claims run as.)
- Listings have fixed columns, because reasons hold blanks. `exit_code` is the wait
  status, or STATUS:SIGNAL (24.11). Comments and names are chosen by users and padded by bytes, so
  they come last; what one with a line break leaves behind is no row, and is passed over.
- A state that this version does not know counts as running: a job that is believed to live too
  long costs less than one whose next attempt begins beside it.
- `sbatch --test-only` says whether a request could be met as things are. When it would start is an
  upper bound at best (with jobs ahead it was minutes too late where backfilling began at once), so
  that no claim is refused for it.
- An operator's account books by reservations (`scontrol create reservation`). One is deleted only
  after its jobs.
- Ended jobs stay listed for MinJobAge (300 s by default); afterwards `scontrol` and `squeue -j`
  say that the number is invalid, and only the accounting, where there is one, knows more.
- A controller that is away makes each command block about ten seconds and exit with 1: that is an
  error which may pass, never an empty listing.
"""

from __future__ import annotations

import math
import re
from dataclasses import dataclass, replace

from koala.common.protocol.messages import Queue
from koala.errors import LocalManagerError
from koala_agent.lrm.batch.slurm.gates import FAR, GATED, gates_of
from koala_agent.lrm.batch.slurm.jobs import ENDS, STATES, end_of, job_of
from koala_agent.lrm.batch.slurm.native import NATIVE_MEMORY, native_options
from koala_agent.lrm.batch.slurm.nodes import (
    KEPT,
    NODE_COLUMNS,
    Node,
    closed_words,
    resources_of,
    rules_of,
    split_columns,
)
from koala_agent.lrm.batch.slurm.partitions import NODES_FORMAT, limits_of
from koala_agent.lrm.batch.slurm.queue import (
    COLUMNS,
    RUNNING,
    WAITING,
    Row,
    explained,
    queue_of,
    waiting_for,
)
from koala_agent.lrm.batch.slurm.reservations import (
    AWAY,
    BOOKINGS,
    RESERVATIONS,
    bookings_of,
    open_reserved_nodes,
    read_booked,
    read_bookings,
    read_unbooked,
)
from koala_agent.lrm.dialect import (
    LATE_S,
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
)
from koala_agent.lrm.local_manager import (
    OUTPUT_FILE,
    Placeholder,
    RequestRefusedError,
    UnclearRefusalError,
)
from koala_agent.transport.interface import Answer, Command

KEEP_S = 600.0
"""How long partitions, configuration and licences are as they were."""
LIST = ("squeue", "-h", "-a", "-t", "all")


HONOURED = (
    *("hostCount", "tasksPerNode", "cpusPerTask", "minMemory"),
    *("gpus", "gpuType", "constraint", "licenses", "exclusive", "reservation"),
)
"""Resources of jobs that it always acts on."""

REFUSALS = re.compile(
    r"(?i)not available|more processors|time limit|exceed|violat|too (?:many|large)|inactive|drain"
    r"|node count|can ?not be satisfied|limit|reservation"
)
"""Messages of Slurm for a request that it refuses (for now); the site works."""
FAULTS = re.compile(
    r"(?i)invalid|not permitted|denied|unrecognized|does not exist|no such|disabled"
)
"""Messages for wrong options, which stay wrong."""


OWN_VARIABLES = ("SBATCH_*", "SLURM_*")
"""Variables that are options of `sbatch`: Koala's are in its command line, or in the agent's file.
"""


@dataclass(frozen=True, slots=True, kw_only=True)
class Slurm(Dialect):
    """Submission options of the site; empty ones are left to Slurm. `user` submits all claims;
    empty where each runs as its owner, whose limits Slurm alone knows."""

    account: str = ""
    partition: str = ""
    qos: str = ""
    user: str = ""
    options: tuple[str, ...] = ()
    native: tuple[str, ...] = ()

    @property
    def honours(self) -> tuple[str, ...]:
        site = {"queue": self.partition, "project": self.account, "qos": self.qos}
        return honoured(HONOURED, site, self.native)

    def submit(self, placeholder: Placeholder, *, name: str, script: str) -> Command:
        """See Dialect. One task for each processor or `cpus_per_task` of them, on any machines."""
        return Command(
            argv=self._sbatch(placeholder, name=name),
            stdin=_for_programs(script),
            hands_on=True,
            without=OWN_VARIABLES,
        )

    def ask(self, placeholder: Placeholder, *, name: str, script: str) -> Command | None:
        """See Dialect: `sbatch` queues requests that can never be met, except where the site has
        EnforcePartLimits. A reservation that has not begun cannot be tested, and was."""
        reserved = placeholder.booking or placeholder.resources.reservation
        if reserved or "--reservation" in (placeholder.resources.native or ""):
            return None
        argv = self._sbatch(placeholder, name=name)
        return Command(argv=(*argv, "--test-only"), stdin=_for_programs(script))

    def read_asked(self, answer: Answer) -> None:
        """See Dialect. Its start time is an estimate, and is not read."""
        if answer.status != 0:
            raise _refusal("sbatch --test-only", answer, self._place())

    def _sbatch(self, placeholder: Placeholder, *, name: str) -> tuple[str, ...]:
        asked = placeholder.resources
        each = asked.cpus_per_task or 1
        limit_s = placeholder.time_limit_s
        argv = [
            "sbatch",
            "--parsable",
            "--no-requeue",
            f"--job-name={name}",
            f"--ntasks={placeholder.processors // each}",
            *([f"--time={max(1, math.ceil(limit_s / 60))}"] if limit_s < math.inf else []),
            f"--chdir={'/' if placeholder.body else placeholder.directory}",
            f"--output={'/dev/null' if placeholder.body else placeholder.directory / OUTPUT_FILE}",
            "--open-mode=append",
        ]
        native = native_options(asked, self.native)
        said = {word.partition("=")[0][2:] for word in native}
        shapes_gpus = any(word[2:].startswith(("gpus", "gres=gpu")) for word in native)
        memory_mb = None if said.intersection(NATIVE_MEMORY) else asked.memory_min_mb
        is_single = placeholder.processes == 1
        if memory_mb and not is_single:
            memory_mb = math.ceil(memory_mb / each)
        kind = f"{asked.gpu_type}:" if asked.gpu_type else ""
        for option, value in (
            ("--account", self.account or asked.project),
            ("--partition", self.partition or asked.queue),
            ("--qos", self.qos or asked.qos),
            ("--nodes", asked.hosts),
            ("--ntasks-per-node", asked.tasks_per_host),
            ("--cpus-per-task", "cpus-per-gpu" not in said and asked.cpus_per_task),
            ("--mem" if is_single else "--mem-per-cpu", memory_mb and f"{memory_mb}M"),
            ("--gpus", not shapes_gpus and asked.gpus and f"{kind}{asked.gpus}"),
            ("--constraint", asked.constraint),
            ("--licenses", ",".join(f"{name}:{count}" for name, count in asked.licenses)),
        ):
            if value:
                argv.append(f"{option}={value}")
        if asked.is_exclusive:
            argv.append("--exclusive")
        if reservation := placeholder.booking or asked.reservation:
            argv.append(f"--reservation={reservation}")
        gate = (f"--begin={FAR}", f"--comment={GATED}") if placeholder.is_gated else ()
        return (*argv, *self.options, *native, *gate)

    def read_submitted(self, answer: Answer) -> str:
        """See Dialect; the answer is NUMBER or NUMBER;CLUSTER, after what a wrapper prints."""
        numbers = re.findall(r"^([0-9]{1,15})(?:;.*)?$", answer.out.strip(), re.MULTILINE)
        if answer.status == 0 and numbers:
            return str(numbers[-1])
        if answer.status == 0:
            message = f"sbatch: no number in {answer.out[:80]!r}"
            raise LocalManagerError(message, transient=True)
        raise _refusal("sbatch", answer, self._place())

    def _place(self) -> str:
        """Name the account, partition and quality of service of all claims, for messages."""
        given = (("account", self.account), ("partition", self.partition), ("qos", self.qos))
        named = ", ".join(f"{key} {value}" for key, value in given if value)
        return f" ({named} of the agent's file)" if named else ""

    def list_jobs(self) -> Command:
        return Command(argv=(*LIST, "--me", "-O", _widths(COLUMNS)))

    def list_all(self) -> Command:
        """See Dialect. A site may hide the jobs of others (PrivateData): they seem to be none."""
        return Command(argv=(*LIST, "-O", _widths(COLUMNS)))

    def read_jobs(self, answer: Answer) -> list[BatchJob]:
        check_status(answer, "squeue")
        rows = []
        trouble: LocalManagerError | None = None
        for line in answer.out.split("\n"):
            try:
                if line.strip():
                    rows.append(job_of(Row(*split_columns(line, COLUMNS))))
            except LocalManagerError as error:
                trouble = error
        if trouble is not None and not rows:
            raise trouble
        return sorted(rows, key=lambda job: int(job.number))

    def withdraw(self, number: str) -> Command:
        """See Dialect. It exits with 0 for a job that has ended or never was."""
        return Command(argv=("scancel", number))

    def read_withdrawn(self, answer: Answer) -> None:
        """See Dialect; scancel has no objection to a job that has ended."""
        if answer.status != 0 and "nvalid job id" not in answer.err:
            check_status(answer, "scancel")

    def record(self, number: str) -> Command:
        """See Dialect: `scontrol` keeps the record for MinJobAge after the end."""
        return Command(argv=("scontrol", "-o", "show", "job", number))

    def read_record(self, answer: Answer, *, number: str, name: str) -> BatchJob | None:
        """See Dialect; a controller that lost its state begins with its first number again."""
        if answer.status != 0 and "nvalid job id" in answer.err:
            return None
        check_status(answer, "scontrol")
        called = re.search(r"\bJobName=(\S+)", answer.out)
        if called is None or called[1] != name:
            return None
        state = re.search(r"\bJobState=(\w+)", answer.out)
        code = re.search(r"\bExitCode=([0-9]{1,9}):([0-9]{1,9})", answer.out)
        if state is None or code is None:
            return None
        if state[1] not in ENDS:  # it is in no listing, and lives
            return BatchJob(number=number, name=name, state=STATES.get(state[1], JobState.RUNNING))
        wait_status = int(code[1]) << 8 | int(code[2])
        return end_of(number, name, state[1], wait_status, "")

    def figures(self) -> tuple[Command, ...]:
        """See Dialect: CPUs of nodes, jobs that wait for them, and how partitions share them."""
        return (
            Command(argv=("sinfo", "-h", "-a", "-N", "-O", _widths(NODE_COLUMNS))),
            self.list_all(),
            Command(argv=("scontrol", "-o", "show", "partition"), keep_s=KEEP_S),
            Command(argv=("scontrol", "show", "config"), keep_s=KEEP_S),
            Command(argv=("scontrol", "-o", "show", "licenses"), keep_s=KEEP_S),
            RESERVATIONS,
        )

    def read_figures(self, answers: tuple[Answer, ...]) -> Figures:
        """See Dialect. Without a partition of ours the default one counts, where there is one; jobs
        of other partitions wait for the nodes that both have."""
        *needed, reservations = answers
        nodes, jobs, partitions, config, licenses = needed
        for answer, command in zip(needed, ("sinfo", "squeue", *["scontrol"] * 3), strict=True):
            check_status(answer, command)
        rules = rules_of(partitions.out, config.out)
        reserved = "" if reservations.status else reservations.out
        lines = open_reserved_nodes(nodes.out.splitlines(), reserved)
        every = [Node.read(line) for line in lines if line.strip()]
        wanted = self.partition.split(",") if self.partition else []
        if not wanted and any(row.is_default for row in every):
            wanted = [row.partition for row in every if row.is_default]
        seen = [row for row in every if not self.partition or row.partition in wanted]
        ours = {row.name: row for row in seen if not wanted or row.partition in wanted}
        tier = min((rules[row.partition].tier for row in ours.values()), default=0.0)
        rivals = [row for row in every if rules[row.partition].tier >= tier]
        rows = _rows(jobs)
        inside: dict[str, int] = {}
        for job in rows:
            if job.state != WAITING:
                inside[job.reservation] = inside.get(job.reservation, 0) + int(job.processors)
        waiting = waiting_for(rows, rivals, frozenset(ours), gated=GATED)
        works = {n: row.idle for n, row in ours.items() if row.lack in ("", KEPT)}
        open_ = {n: row.idle for n, row in ours.items() if not row.lack}
        idle_at = {name: row.idle_for(rules[row.partition]) for name, row in ours.items()}
        asleep = [row for row in ours.values() if row.is_asleep and idle_at[row.name]]
        unit = min((row.unit(rules[row.partition]) for row in ours.values()), default=0)
        hides_jobs = re.search(r"^PrivateData\s*=.*\bjobs\b", config.out, re.MULTILINE)
        return Figures(
            processors=sum(row.processors(rules[row.partition]) for row in ours.values()),
            idle=sum(idle_at.values()),
            queued_jobs=len(waiting),
            idle_gpus=sum(
                row.idle_gpus(rules[row.partition])
                for row in {one.name: one for one in seen}.values()
            ),
            resources=replace(
                resources_of({row.name: row for row in seen}.values(), rules, licenses.out),
                host_processors=min((n for row in ours.values() if (n := row.total)), default=0),
                unit=unit if unit > 1 else 0,
            ),
            waiting=waiting,
            idle_at=idle_at,
            planned=frozenset(n for n, row in ours.items() if row.is_planned and hides_jobs),
            asleep=sum(idle_at[row.name] for row in asleep),
            wake_s=max((rules[row.partition].wake_s for row in asleep), default=0.0),
            shut=sum(row.idle for row in ours.values() if row.is_there and row.lack),
            closed=closed_words(ours.values(), rules),
            booked=bookings_of(reserved, open_, inside, is_for_others=True),
            reservations=None if reservations.status else bookings_of(reserved, works, inside),
            is_settling=any(row.is_ending for row in ours.values()),
        )

    def limits(self) -> tuple[Command, ...]:
        """See Dialect."""
        which = (f"users={self.user}", "flags=assoc,qos") if self.user else ("flags=qos",)
        return (
            Command(argv=("scontrol", "-o", "show", "partition"), keep_s=KEEP_S),
            Command(argv=("sinfo", "-h", "-a", "-o", NODES_FORMAT), keep_s=KEEP_S),
            Command(argv=("scontrol", "-o", "show", "assoc_mgr", *which)),
            RESERVATIONS,
        )

    def read_limits(self, answers: tuple[Answer, ...]) -> Limits:
        """See Dialect. Without accounting there are no associations; a site may hide them."""
        return limits_of(
            *(answer.out if answer.status == 0 else "" for answer in answers),
            partition=self.partition,
            account=self.account,
            qos=self.qos,
            user=self.user,
        )

    def explain_reason(self, reason: str, queues: tuple[Queue, ...]) -> str:
        """See Dialect."""
        return explained(reason, queues)

    def list_queue(self) -> Command:
        """See Dialect."""
        return self.list_all()

    def read_queue(self, answer: Answer) -> tuple[QueueRow, ...]:
        """See Dialect."""
        return queue_of(_rows(answer), gated=GATED)

    def gates(self) -> tuple[Command, ...]:
        """See Dialect: the configuration, and all nodes."""
        return (
            Command(argv=("scontrol", "show", "config"), keep_s=KEEP_S),
            Command(argv=("sinfo", "-h", "-a", "-o", "%N"), keep_s=KEEP_S),
        )

    def read_gates(self, answers: tuple[Answer, ...]) -> tuple[Gate, ...]:
        """See Dialect."""
        config, nodes = answers
        for answer, command in zip(answers, ("scontrol", "sinfo"), strict=True):
            check_status(answer, command)
        return gates_of(config.out, ",".join(nodes.out.split()), self.options)

    def reservations(self) -> Command:
        """See Dialect."""
        return BOOKINGS

    def read_reservations(self, answer: Answer) -> list[Booking]:
        """See Dialect."""
        return read_bookings(answer)

    def booking(self) -> tuple[Command, ...]:
        """See Dialect: a reservation in the past, which an account with the right is refused in
        other words than one without."""
        if not self.user:
            return ()
        return (
            Command(
                argv=(
                    *("scontrol", "create", "reservation", "reservationname=koala-right"),
                    *("starttime=uts1000000000", "duration=1", "tres=cpu=1", f"users={self.user}"),
                )
            ),
        )

    def read_booking(self, answers: tuple[Answer, ...]) -> Booker | None:
        """See Dialect: reservations, which operators and administrators of Slurm create."""
        if not answers:
            return None
        if AWAY.search(answers[0].err):
            raise LocalManagerError(answers[0].complaint(), transient=True)
        return Booker(
            is_allowed="nvalid time" in answers[0].err,
            name="reservation",
            book=self._book,
            read_booked=read_booked,
            list=BOOKINGS,
            read_list=read_bookings,
            delete=lambda name: Command(argv=("scontrol", "delete", f"reservationname={name}")),
            read_deleted=read_unbooked,
        )

    def _book(self, placeholder: Placeholder, name: str) -> Command:
        """Reserve cores of any nodes. Raises RequestRefusedError for GPUs, which reservations of
        most versions do not have."""
        asked = placeholder.resources
        if asked.gpus:
            raise RequestRefusedError("Slurm reserves no GPUs (expected a booking without them)")
        partition = (self.partition or asked.queue or "").partition(",")[0]
        words = [
            f"reservationname={name}",
            f"starttime=uts{math.ceil(placeholder.begins_at)}",
            f"duration={math.ceil((placeholder.time_limit_s + LATE_S) / 60) + 1}",
            f"users={self.user}",
            f"tres=cpu={placeholder.processors}",
            *([f"partitionname={partition}"] if partition else []),
            *([f"nodecnt={asked.hosts}"] if asked.hosts else []),
            *([f"features={asked.constraint}"] if asked.constraint else []),
        ]
        return Command(argv=("scontrol", "create", "reservation", *words))


def _for_programs(script: str) -> str:
    """Let a shell run the script that keeps exported functions, such as `module`; dash drops them.
    With -p it reads no start-up file of the site's."""
    return script.replace("#!/bin/sh\n", "#!/bin/bash -p\n", 1)


def _rows(answer: Answer) -> list[Row]:
    """Return the jobs of a listing that have not ended; what is no row of it is passed over."""
    check_status(answer, "squeue")
    rows = [Row(*split_columns(line, COLUMNS)) for line in answer.out.splitlines()]
    is_row = (WAITING, *RUNNING)
    return [
        row
        for row in rows
        if row.state in is_row and is_count(row.number[:1]) and is_count(row.processors)
    ]


def _widths(columns: tuple[tuple[str, int], ...]) -> str:
    return ",".join(f"{name}:{width}" for name, width in columns)


def _refusal(command: str, answer: Answer, place: str) -> LocalManagerError:
    complaint = answer.complaint()
    message = f"{command}: {answer.complaints()}{place}"
    if AWAY.search(complaint):
        return LocalManagerError(message, transient=True)
    if REFUSALS.search(complaint):
        return RequestRefusedError(message)
    if FAULTS.search(complaint):
        return LocalManagerError(message)
    return UnclearRefusalError(message)
