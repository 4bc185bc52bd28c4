"""Table of the attributes that a job description may name, and their treatment.

Its users are `job_reader`, the reference (a test compares docs/rsl.md with it), and the spelling
help of error messages (`attribute_names`).
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import KW_ONLY, dataclass
from enum import StrEnum
from functools import partial
from typing import Any, TypeAlias

from koala.core.model.job_spec import JobType, StartType
from koala.job_descriptions import fields, resource_fields
from koala.job_descriptions.fields import AttributeText

Reader: TypeAlias = Callable[[AttributeText], Any]
Writer: TypeAlias = Callable[[Any], str | list[str] | list[str | tuple[str, ...]]]

PROCESSORS_MAX = 1_000_000


class Treatment(StrEnum):
    """Treatment of an attribute: honoured, skipped with a warning, refused, or passed to the
    site."""

    HONOURED = "honoured"
    HANDED = "handed to the site"
    IGNORED = "ignored, with a warning"
    REFUSED = "refused"


class Scope(StrEnum):
    """Scope of an attribute: one component, or the job as a whole."""

    COMPONENT = "component"
    JOB = "job"


@dataclass(frozen=True, slots=True)
class Attribute:
    """A row of the table. `values` names what it takes. `note` says the meaning, or why it is
    ignored or refused.

    Where an attribute is one `field` of ComponentSpec, `read` reads the field's value and `write`
    writes it; lists are written as they are. `plain` is its name in YAML and JSON where the name in
    RSL is older than the words of today's batch systems. An `alias` is read, and never written.
    """

    name: str
    values: str
    note: str
    origin: str = "GRAM"
    _: KW_ONLY
    treatment: Treatment = Treatment.HONOURED
    scope: Scope = Scope.COMPONENT
    field: str = ""
    read: Reader | None = None
    write: Writer = str
    plain: str = ""
    alias: str = ""


_handed = partial(Attribute, treatment=Treatment.HANDED)
_of_job = partial(Attribute, origin="Koala", scope=Scope.JOB)


def _processors(attribute: AttributeText) -> int:
    return fields.whole(attribute, low=1, high=PROCESSORS_MAX)


def _job_type(attribute: AttributeText) -> JobType:
    if fields.string(attribute).text.lower() == "condor":
        message = "condor is not there yet, expected single, multiple or mpi"
        raise attribute.error(message, attribute.relation.values[0])
    return fields.choice(attribute, {kind.value: kind for kind in JobType})


def _start_type(attribute: AttributeText) -> StartType:
    return fields.choice(attribute, {kind.value: kind for kind in StartType})


def _resize_signal(attribute: AttributeText) -> str:
    return fields.choice(attribute, {"usr1": "USR1", "usr2": "USR2"})


def _ignored(name: str, note: str, origin: str = "GRAM") -> Attribute:
    return Attribute(name, "", note, origin, treatment=Treatment.IGNORED)


def _refused(name: str, note: str, origin: str = "GRAM") -> Attribute:
    return Attribute(name, "", note, origin, treatment=Treatment.REFUSED)


ATTRIBUTES: tuple[Attribute, ...] = (
    Attribute(
        "executable",
        "string",
        "the program to run; needed in each component",
        field="executable",
        read=fields.path,
    ),
    Attribute(
        "arguments",
        "list",
        "its arguments; 128 KiB in all",
        field="arguments",
        read=fields.arguments,
    ),
    Attribute(
        "directory",
        "string",
        "where it runs (default: a work folder of its own)",
        field="directory",
        read=fields.path,
    ),
    Attribute(
        "environment",
        "(NAME value) ...",
        "variables; 128 KiB in all; KOALA_* is reserved",
        field="environment",
        read=fields.environment,
    ),
    Attribute("stdin", "string", "file at the site", field="stdin", read=fields.path),
    Attribute(
        "stdout",
        "string",
        "file at the site; missing folders are made",
        field="stdout",
        read=fields.path,
    ),
    Attribute(
        "stderr",
        "string",
        "file at the site; missing folders are made",
        field="stderr",
        read=fields.path,
    ),
    Attribute(
        "count",
        "integer",
        "processors, 1 (default) to 1000000, as all components together",
        field="processors",
        read=_processors,
        plain="processors",
    ),
    _handed(
        "hostCount",
        "integer",
        "hosts to spread the processors over, where a site has any; at most count",
        field="hosts",
        read=_processors,
        plain="hosts",
        alias="nodes",
    ),
    Attribute(
        "jobType",
        "single, multiple or mpi",
        "one process, count processes (default), or count ranks of one MPI_COMM_WORLD with those of"
        " the job's other mpi components; condor is refused",
        field="job_type",
        read=_job_type,
    ),
    Attribute(
        "maxTime", "minutes or duration", "limit on wall-clock time, where maxWallTime is absent"
    ),
    Attribute(
        "maxWallTime",
        "minutes or duration",
        "limit on wall-clock time",
        field="wall_time_s",
        read=fields.time_limit_s,
        write=fields.time_limit_text,
        plain="wall_time",
    ),
    Attribute(
        "maxCpuTime",
        "minutes or duration",
        "limit on processor time",
        field="cpu_time_s",
        read=fields.time_limit_s,
        write=fields.time_limit_text,
        plain="cpu_time",
    ),
    _handed(
        "minMemory",
        "MB, or with a unit",
        "memory that one process needs, where a site asks",
        field="memory_min_mb",
        read=fields.memory_mb,
        plain="memory",
    ),
    Attribute(
        "maxMemory",
        "MB, or with a unit",
        "memory that one process may use",
        field="memory_max_mb",
        read=fields.memory_mb,
        plain="memory_max",
    ),
    _handed(
        "queue",
        "string",
        "queue of the site's local manager, where it has several",
        field="queue",
        read=fields.word,
        alias="partition",
    ),
    _handed(
        "project",
        "string",
        "account that the site charges, where it has accounts",
        field="project",
        read=fields.word,
        plain="account",
    ),
    _handed("qos", "string", "quality of service", "Koala", field="qos", read=fields.word),
    _handed(
        "reservation",
        "string",
        "reservation that exists at the site, in which the component runs",
        "Koala",
        field="reservation",
        read=fields.word,
    ),
    _handed(
        "tasksPerNode",
        "integer",
        "processes on each host, where a site can say so",
        "Koala",
        field="tasks_per_host",
        read=resource_fields.count,
        alias="tasksPerHost",
    ),
    Attribute(
        "cpusPerTask",
        "integer",
        "processors of each process; it divides count, which stays the sum (default: 1)",
        "Koala",
        field="cpus_per_task",
        read=resource_fields.count,
    ),
    Attribute(
        "gpus",
        "integer",
        "GPUs of the component, of all its processes together; only sites with so many are used",
        "Koala",
        field="gpus",
        read=resource_fields.count,
    ),
    Attribute(
        "gpuType",
        "string",
        "type of these GPUs, as the site calls it, such as a100",
        "Koala",
        field="gpu_type",
        read=fields.word,
    ),
    Attribute(
        "constraint",
        "string",
        "features that the hosts must have, such as ib or ib&haswell; only sites with them are"
        " used",
        "Koala",
        field="constraint",
        read=resource_fields.constraint,
    ),
    Attribute(
        "licenses",
        "NAME, NAME:COUNT or (NAME COUNT) ...",
        "software licences; only sites with them are used",
        "Koala",
        field="licenses",
        read=resource_fields.licenses,
        write=resource_fields.licenses_text,
    ),
    _handed(
        "exclusive",
        "yes or no",
        "yes: no other job on the hosts (default: no)",
        "Koala",
        field="is_exclusive",
        read=fields.is_yes,
        write=fields.yes_or_no,
    ),
    _handed(
        "native",
        "string",
        "options for the site's batch system that no attribute covers, in quotes; a site may"
        " refuse them",
        "Koala",
        field="native",
        read=resource_fields.native,
    ),
    Attribute("dryRun", "yes or no", "yes: check and place the job, submit nothing (as --dry-run)"),
    Attribute("rsl_substitution", "(NAME value) ...", "definitions of variables"),
    _ignored("gramMyJob", "the rendezvous bundle tells each component of the others"),
    _ignored("save_state", "the daemon's journal keeps every job"),
    _ignored("two_phase", "submission is idempotent by its key"),
    _refused("restart", "it would take over a job of GRAM; submit the job again"),
    _ignored("stdout_position", "standard output is a file, not a stream"),
    _ignored("stderr_position", "standard error is a file, not a stream"),
    _ignored("remote_io_url", "there is no GASS server"),
    _refused("file_stage_in", "name the file with inputFile"),
    _refused("file_stage_in_shared", "name the file with inputFile"),
    _refused("file_stage_out", "name the files with outputFile"),
    _ignored("file_clean_up", "a component's work folder is removed as a whole"),
    _ignored("scratch_dir", "each component has a work folder of its own"),
    _ignored("gass_cache", "there is no GASS cache"),
    _refused("library_path", "set LD_LIBRARY_PATH in environment"),
    _ignored("expiration", "leases clean up"),
    _refused("username", "the site's agent decides under which account a job runs"),
    _ignored("loglevel", "the daemon and the agents have logs of their own"),
    _ignored("logpattern", "the daemon and the agents have logs of their own"),
    _ignored("savejobdescription", "the daemon's journal keeps every job"),
    _ignored("proxy_timeout", "obsolete in GRAM, too"),
    _ignored("restartcontacts", "internal to GRAM"),
    Attribute(
        "resourceManagerContact",
        "string",
        "the host part is the site where the component must run (default: any site); https://, "
        "port, service and subject are ignored with a warning",
        "DUROC",
        field="site",
        plain="site",
    ),
    Attribute(
        "sites",
        "list",
        "sites at one of which the component must run, 1 to 8, as partitions with agents of their"
        " own; where they are busy it waits at all of them",
        "Koala",
        field="sites",
        read=fields.sites,
    ),
    Attribute(
        "label",
        "string",
        "name of the component, unique in the job",
        "DUROC",
        field="label",
        read=fields.label,
    ),
    Attribute(
        "subjobStartType",
        "strict-barrier, loose-barrier or no-barrier",
        "must take part in the start (default); may be missing at the start; starts when it can",
        "DUROC",
        field="start_type",
        read=_start_type,
        plain="start_type",
    ),
    _ignored("subjobCommsType", "the bundle and the key-value exchange are there always", "DUROC"),
    _refused("resourceManagerName", "there is no MDS; use resourceManagerContact=SITE", "DUROC"),
    Attribute(
        "outputFile",
        "list",
        "files in the component's working directory to bring back: relative paths without `..`",
        "Koala",
        field="output_files",
        read=fields.output_files,
        plain="output_files",
    ),
    Attribute(
        "stage",
        "yes, or list",
        "files and folders of your own machine that go along, unpacked in the claim's folder; yes:"
        " the executable itself",
        "Koala",
        field="stage",
        read=fields.stage,
        alias="stagein",
    ),
    Attribute(
        "outputs",
        "list",
        "patterns of further files to bring back, such as `results/*.csv`, `**/*.log` or `plots/`",
        "Koala",
        field="outputs",
        read=fields.output_patterns,
    ),
    Attribute(
        "rate",
        "number",
        "work a second that was agreed, for `progress`: processor-seconds (default: count), or what"
        " the program tells in the file $KOALA_PROGRESS (default: 1)",
        "Koala",
        field="rate",
        read=fields.amount,
        write=fields.amount_text,
    ),
    Attribute(
        "inputs",
        "list of NAME or (NAME SIZE)",
        "files that this component reads beside those of `inputFile`; they are copied to its site"
        " only",
        "Koala",
        field="inputs",
        read=fields.input_files,
        write=fields.input_files_text,
    ),
    Attribute(
        "ports",
        "NAME:NUMBER ...",
        "ports at which its program listens; the others find each as $KOALA_ADDRESS_NAME, directly"
        " or through the grid",
        "Koala",
        field="ports",
        read=fields.ports,
        write=fields.ports_text,
    ),
    Attribute(
        "resizeSignal",
        "USR1 or USR2",
        "signal for processes that handle it, whenever components join or leave a malleable job",
        "Koala",
        field="resize_signal",
        read=_resize_signal,
    ),
    _of_job("name", "string", "name of the job, for people; need not be unique"),
    _of_job("distinct", "yes or no", "no two components at one site (default: no)"),
    _of_job(
        "after",
        "JOB ...",
        "jobs that must have ended before this one is placed: well (j12), or anyhow (j12:any)",
    ),
    _of_job(
        "notify",
        "(mail ADDRESS) (webhook URL) (topic NAME) (command PROGRAM ...) (on EVENT ...)",
        "who learns of what happens to the job: see [notification](#notification)",
    ),
    _of_job(
        "totalCount",
        "integer",
        "processors of all components, which the scheduler splits over the sites; in place of"
        " `count`, in a job of one `&`: see guides/flexible.md",
        plain="total_processors",
    ),
    _of_job(
        "minCount",
        "integer",
        "processors of the smallest component of such a job (default: 1)",
        plain="min_processors",
    ),
    _of_job(
        "maxCount",
        "integer",
        "processors of its largest component (default: all)",
        plain="max_processors",
    ),
    _of_job("maxComponents", "integer", "number of its components, at most (default: 1000)"),
    _of_job(
        "malleable",
        "yes or no",
        "yes: it starts with less than totalCount if that is all it can have, and takes more, or"
        " gives way, while it runs (default: no)",
    ),
    _of_job(
        "minTotalCount",
        "integer",
        "processors with which a malleable job can start (default: minCount)",
        plain="min_total_processors",
    ),
    _of_job("priority", "high or low", "importance relative to other jobs (default: low)"),
    _of_job(
        "inputFile",
        "list of NAME or (NAME SIZE)",
        "the logical files that all components read, see guides/files.md; `NAME/` is a folder. The"
        " size, in bytes or with K, M or G (1024, 1024², 1024³ bytes), counts where the catalogue"
        " does not know the file",
        plain="input_files",
    ),
    _of_job(
        "group",
        "string",
        "the group of users that the job counts for (default: that of its user)",
    ),
    _of_job(
        "inputMode",
        "whole or chunk",
        "each component gets all of it (default), or its share of a single file",
    ),
    _of_job(
        "deadline",
        "instant or +minutes",
        'required start: ISO 8601 with a zone, or minutes from submission (in quotes: "+90")',
    ),
    _of_job(
        "hint",
        "cpu or io, and 0 to 1",
        "what limits the job; acceptable deviation of its rate",
    ),
    _of_job("length", "number, million instructions", "what each of its processors executes"),
    _of_job("mips", "number", "preferred rate of each of its processors"),
    _of_job("maxHold", "minutes or duration", "longest hold of claimed processors before a start"),
    _of_job("quorum", "integer", "start with so many components, 1 to all"),
    _of_job(
        "redundancy",
        "integer",
        "sites in whose queues a component waits if they are busy, 1 to 8 (default: 1)",
    ),
    _of_job("retry", "integer", "times that a failed job goes back to its queue, 0 to 1000"),
    _of_job("rerun", "yes or no", "may be placed again after it has started (default: yes)"),
    _of_job(
        "progress",
        "free or sq",
        "whether the components are kept together while they run; or another progress policy of the"
        " daemon (default: as it is configured, free)",
    ),
    _of_job(
        "asynchrony",
        "seconds",
        "how far apart the components' progress may be under `progress` (default: 1)",
    ),
    _of_job(
        "deviation",
        "seconds",
        "how far their mean may be from the time they have run (default: any)",
    ),
    _of_job(
        "connect",
        "(all PORT) or (FROM TO PORT) ...",
        "TCP paths that are tried before the start; FROM and TO are labels, indices or all",
    ),
    _ignored("filesize-stagein", "files that go along are measured", "KOALA"),
    _refused("stageout", "name the files with outputFile; they are brought back", "KOALA"),
    _ignored("filesize-stageout", "files are brought back whatever their sizes", "KOALA"),
    _ignored("bandwidth", "links are measured, and nothing is reserved on them", "KOALA"),
)
