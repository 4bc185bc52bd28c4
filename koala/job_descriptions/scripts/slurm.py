"""`#SBATCH` directives of batch scripts, as components.

Lines are split as `sbatch` splits them, found by experiment with 22.05.8: the words of all lines
are one list, so that a value may stand on the next line; a backslash takes the next character as it
is, a blank apart; `#` outside of quotes ends a line, also within a word; the last one counts of an
option that is given several times.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator

from koala.core.model.values import Seconds
from koala.errors import Position, SpecError
from koala.job_descriptions.scripts.draft import (
    Draft,
    Reader,
    login_shell,
    megabytes,
    number,
    output_file,
    read_export,
    whole,
    whole_minutes,
    wish,
)
from koala.job_descriptions.scripts.options import (
    Directives,
    Fate,
    Line,
    Option,
    Use,
    Values,
    by_name,
    getopt,
    rows,
)

_PIECE = re.compile(r"""(\\\S)|"((?:\\.|[^"\\])*)"|'((?:\\.|[^'\\])*)'|([^\s"'\\#]+)|\\()""")
"""A piece of a word: a character after a backslash, a quoted text, or plain characters."""
_ESCAPED = re.compile(r"\\(.)")
NO_LIMIT = ("infinite", "unlimited", "-1")


def slurm_seconds(text: str) -> Seconds | None:
    """Parse Slurm's times: MM, MM:SS, HH:MM:SS, D-HH, D-HH:MM, D-HH:MM:SS; None for no limit.
    Raises SpecError."""
    match = re.fullmatch(r"(?:(\d+)-(?!$))?(\d+)(?::(\d+))?(?::(\d+))?|(\d+)-", text, re.ASCII)
    if text.lower() in NO_LIMIT or (match is not None and not re.search(r"[1-9]", text)):
        return None
    if match is None:
        raise SpecError(
            f"--time {text} (expected MINUTES, MM:SS, HH:MM:SS, D-HH, D-HH:MM, D-HH:MM:SS or"
            " UNLIMITED)"
        )
    days, *rest, days_alone = match.groups()
    numbers = [int(number) for number in rest if number is not None]
    if (days := days or days_alone) is not None:
        hours, minutes, seconds = (*numbers, 0, 0, 0)[:3]
        return float(((int(days) * 24 + hours) * 60 + minutes) * 60 + seconds)
    if len(numbers) == 3:
        return float((numbers[0] * 60 + numbers[1]) * 60 + numbers[2])
    minutes, seconds = (*numbers, 0)[:2]
    return float(minutes * 60 + seconds)


def _time(draft: Draft, text: str) -> None:
    seconds = slurm_seconds(text)
    draft.set(wall_time_s=None if seconds is None else whole_minutes(seconds))
    if seconds is None:
        draft.warn(f"--time={text} is read as no limit of its own: that of the partition counts")


def _nodes(draft: Draft, text: str) -> None:
    low, dash, high = text.partition("-")
    if dash and low != high:
        raise SpecError(f"--nodes {text} (expected one number: a component has a fixed size)")
    draft.nodes = whole("--nodes", low)


def _memory(draft: Draft, text: str) -> None:
    """Read memory of a node; 0 is all of it, which needs no number."""
    is_all = re.fullmatch("0+[KMGTkmgt]?[Bb]?", text) is not None
    draft.memory_mb = None if is_all else megabytes("--mem", text)
    if is_all:
        draft.shape.append("--mem=0")


def _memory_per_cpu(draft: Draft, text: str) -> None:
    draft.memory_per_cpu_mb = megabytes("--mem-per-cpu", text) if text.strip("0") else None
    draft.shape.append(f"--mem-per-cpu={text}")


def _gres(draft: Draft, text: str) -> None:
    """Read `gpu`, `gpu:2` or `gpu:a100:2`, for each node; anything else is for the site."""
    others = []
    gpus = []
    for word in text.split(","):
        plain = re.sub(r"^gres[:/]|\([^)]*\)$", "", word)
        name, _, rest = plain.partition(":")
        if name == "gpu":
            gpus.append(rest)
        elif word != "none":
            others.append(word)
    if others:
        draft.native.append(f"--gres={','.join(others)}")
    count = _typed_gpus(draft, "--gres gpu", ",".join(gpus), typed=True) if gpus else None
    if count and draft.gpus_per_node:
        raise SpecError(f"--gres {text}: expected no --gpus-per-node beside it")
    if count:
        draft.gpus_per_node = count
        words = ",".join(f"gpu:{rest}" if rest else "gpu" for rest in gpus)
        if others:
            draft.native[-1] = f"--gres={words},{','.join(others)}"
        else:
            draft.shape.append(f"--gres={words}")


def _typed_gpus(draft: Draft, option: str, text: str, *, typed: bool = False) -> int | None:
    """Read NUMBER, TYPE:NUMBER or, where `one` is meant without a number, TYPE; None for 0."""
    if "," in text:
        raise SpecError(f"{option} {text} (expected one type of GPU); the others are components")
    kind, _, count = text.rpartition(":")
    if typed and not re.fullmatch(r"\d+", count):
        kind, count = text, "1"
    if kind:
        wish(option, "gpuType")(draft, kind)
    return whole(option, count) if count.strip("0") else None


def _all_gpus(draft: Draft, text: str) -> None:
    draft.set(gpus=_typed_gpus(draft, "--gpus", text))


def _node_gpus(draft: Draft, text: str) -> None:
    count = _typed_gpus(draft, "--gpus-per-node", text)
    if count and draft.gpus_per_node:
        raise SpecError(f"--gpus-per-node {text}: expected no GPUs in --gres beside it")
    if count:
        draft.gpus_per_node = count
        draft.shape.append(f"--gpus-per-node={text}")


def _task_gpus(draft: Draft, text: str) -> None:
    draft.gpus_per_task = _typed_gpus(draft, "--gpus-per-task", text)
    if draft.gpus_per_task:
        draft.shape.append(f"--gpus-per-task={text}")


def _shaping(option: str, name: str, parse: Callable[[str, str], int] = whole) -> Reader:
    """Make the reader of a number for a field of the draft, which is passed on, too."""

    def read(draft: Draft, text: str) -> None:
        setattr(draft, name, parse(option, text))
        draft.shape.append(f"{option}={text}")

    return read


def _exclusive(draft: Draft, text: str) -> None:
    draft.set(is_exclusive=True)
    if text:
        draft.warn(f"--exclusive={text} is read as --exclusive: the whole nodes")


def _sizing(*names: str) -> Option:
    """Make the row of an option that changes the size where --ntasks does not tell it."""

    def read(draft: Draft, text: str) -> None:
        draft.native.append(f"{names[0]}={text}")
        draft.sized_at = draft.at

    return Option(names, Fate.READ, "`native`, with `--ntasks`", read)


def _open_mode(draft: Draft, text: str) -> None:
    if text[:1].lower() != "a":
        draft.warn("--open-mode is left out: output is appended to files")


READ, PASSED, TUNING, REFUSED, LEFT_OUT = (
    Fate.READ,
    Fate.PASSED,
    Fate.TUNING,
    Fate.REFUSED,
    Fate.LEFT_OUT,
)
_output, _error = output_file("output"), output_file("error")
_tasks_per_gpu = _shaping("--ntasks-per-gpu", "tasks_per_gpu")
_gpu_cpus = _shaping("--cpus-per-gpu", "cpus_per_gpu")
_memory_per_gpu = _shaping("--mem-per-gpu", "memory_per_gpu_mb", megabytes)
_NOTHING = "sbatch submits nothing with it"

OPTIONS: tuple[Option, ...] = (
    # Size.
    Option(("--ntasks", "-n"), READ, "`count`", number("--ntasks", "tasks")),
    Option(("--nodes", "-N"), READ, "`hostCount`; one number", _nodes),
    Option(
        ("--ntasks-per-node", "--tasks-per-node"),
        READ,
        "`count`, `tasksPerNode`",
        number("--ntasks-per-node", "tasks_per_node"),
    ),
    Option(
        ("--ntasks-per-gpu", "--ntasks-per-tres"),
        READ,
        "`count`",
        _tasks_per_gpu,
    ),
    Option(
        ("--cpus-per-task", "-c"),
        READ,
        "`count`, `cpusPerTask`",
        number("--cpus-per-task", "cpus_per_task"),
    ),
    Option(
        ("--cpus-per-gpu",),
        READ,
        "`count`, `cpusPerTask`",
        _gpu_cpus,
    ),
    Option(("--mem",), READ, "`minMemory`", _memory),
    Option(("--mem-per-cpu",), READ, "`minMemory`; passed on", _memory_per_cpu),
    Option(("--mem-per-gpu",), READ, "`minMemory`; passed on", _memory_per_gpu),
    Option(("--time", "-t"), READ, "`maxWallTime`, rounded up to minutes", _time),
    # GPUs and other resources.
    Option(("--gpus", "-G"), READ, "`gpus`, `gpuType`; one type", _all_gpus),
    Option(("--gpus-per-node",), READ, "`gpus`, `gpuType`; passed on", _node_gpus),
    Option(("--gpus-per-task",), READ, "`gpus`, `gpuType`; passed on", _task_gpus),
    Option(
        ("--gres",), READ, "GPUs: `gpus`, `gpuType`, passed on; what else it names: `native`", _gres
    ),
    Option(("--constraint", "-C"), READ, "`constraint`", wish("--constraint", "constraint")),
    Option(("--licenses", "-L"), READ, "`licenses`", wish("--licenses", "licenses")),
    Option(("--exclusive",), READ, "`exclusive`: the whole nodes", _exclusive, values=Values.MAYBE),
    # Where.
    Option(("--partition", "-p"), READ, "`queue`", wish("--partition", "queue")),
    Option(("--account", "-A"), READ, "`project`", wish("--account", "project")),
    Option(("--qos", "-q"), READ, "`qos`", wish("--qos", "qos")),
    _sizing("--nodelist", "-w"),
    _sizing("--extra-node-info", "-B"),
    _sizing("--sockets-per-node"),
    _sizing("--cores-per-socket"),
    # The program.
    Option(
        ("--job-name", "-J"),
        READ,
        "`label`, with the site's name if several scripts have one; then the job's `name`, too",
        wish("--job-name", "label"),
    ),
    Option(
        ("--output", "-o"), READ, "`stdout`; a name with a pattern but `%x` is left out", _output
    ),
    Option(("--error", "-e"), READ, "`stderr`; a name with a pattern but `%x` is left out", _error),
    Option(("--input", "-i"), READ, "`stdin`", wish("--input", "stdin")),
    Option(("--chdir", "-D", "--workdir"), READ, "`directory`", wish("--chdir", "directory")),
    Option(("--export",), READ, "NAME=VALUE: `environment`", read_export),
    Option(
        ("--get-user-env",), READ, "the shell is a login shell", login_shell, values=Values.MAYBE
    ),
    Option(("--open-mode",), READ, "files for output are always appended to", _open_mode),
    Option(("--reservation",), READ, "`reservation`", wish("--reservation", "reservation")),
    # Needed by the program, and for the batch system alone to judge.
    *rows(
        PASSED,
        "--batch --bb --context --core-spec,-S --delay-boot --exclude,-x --extra"
        " --gres-flags --mcs-label --mincpus --network --prefer"
        " --segment --thread-spec --threads-per-core --tmp --wait-all-nodes",
    ),
    *rows(
        PASSED,
        "--consolidate-segments --contiguous --reboot --spread-job --spread-segments --stepmgr"
        " --use-min-nodes",
        Values.NONE,
    ),
    *rows(PASSED, "--no-kill,-k --propagate", Values.MAYBE),
    *rows(
        TUNING,
        "--acctg-freq --comment --cpu-freq --distribution,-m --gpu-bind --gpu-freq --hint"
        " --mem-bind --ntasks-per-core --ntasks-per-socket --oom-kill-step --power --priority"
        " --profile --switches --tres-bind --wckey",
    ),
    *rows(TUNING, "--nice --resv-ports", Values.MAYBE),
    *rows(TUNING, "--oversubscribe,-s,--share", Values.NONE),
    # Mail is the batch system's; Koala sends none.
    Option(
        ("--mail-type",), LEFT_OUT, "`koala submit --watch` waits, `notify` in RSL tells of the end"
    ),
    Option(("--mail-user",), LEFT_OUT, "no mail is sent"),
    Option(
        ("--requeue",),
        LEFT_OUT,
        "Koala itself places a job again whose site failed",
        values=Values.NONE,
    ),
    Option(("--time-min",), LEFT_OUT, "the job may run as long as --time says"),
    Option(("--wait", "-W"), LEFT_OUT, "`koala submit --wait` waits", values=Values.NONE),
    *rows(LEFT_OUT, "--no-requeue --parsable --quiet,-Q --verbose,-v --ignore-pbs", Values.NONE),
    *rows(LEFT_OUT, "--kill-on-invalid-dep"),
    # Without them something else would run.
    Option(
        ("--array", "-a"),
        REFUSED,
        "a component is one program; submit a copy of the script for each member, with"
        " --export=SLURM_ARRAY_TASK_ID=N in place of --array",
    ),
    Option(("--dependency", "-d"), REFUSED, "submit it with koala submit --after JOB"),
    Option(("--begin", "-b"), REFUSED, "use (deadline=...) in RSL"),
    Option(("--deadline",), REFUSED, "use (deadline=...) in RSL, which is a start"),
    Option(("--hold", "-H"), REFUSED, "submit it when it may start", values=Values.NONE),
    Option(("--gpus-per-socket",), REFUSED, "use --gpus, --gpus-per-node or --gpus-per-task"),
    Option(("--tres-per-task",), REFUSED, "use --cpus-per-task and --gpus-per-task"),
    Option(("--overcommit", "-O"), REFUSED, "a task has a processor", values=Values.NONE),
    Option(
        ("--signal",),
        REFUSED,
        "no signal comes before the end; use `timeout -s USR1 SECONDS PROGRAM` in it",
    ),
    Option(
        ("--clusters", "-M", "--cluster"),
        REFUSED,
        "name a site: koala submit --component SITE:SCRIPT",
    ),
    Option(("--cluster-constraint",), REFUSED, "name a site: koala submit --component SITE:SCRIPT"),
    Option(("--nodefile", "-F"), REFUSED, "the file is not at the site; use --nodelist"),
    Option(("--bbf",), REFUSED, "the file is not at the site; use --bb"),
    Option(("--export-file",), REFUSED, "the file is not at the site; use --export"),
    Option(("--container",), REFUSED, "let the script start the container"),
    Option(("--container-id",), REFUSED, "let the script start the container"),
    Option(("--uid",), REFUSED, "the site's agent decides under which account a job runs"),
    Option(("--gid",), REFUSED, "the site's agent decides under which account a job runs"),
    Option(("--wrap",), REFUSED, "the script is the program"),
    Option(("--test-only",), REFUSED, "use koala submit --dry-run", values=Values.NONE),
    Option(("--help", "-h"), REFUSED, _NOTHING, values=Values.NONE),
    Option(("--usage",), REFUSED, _NOTHING, values=Values.NONE),
    Option(("--version", "-V"), REFUSED, _NOTHING, values=Values.NONE),
)
"""All options of `sbatch` 22.05 (`sbatch --help`, and those that it hides), and of newer ones."""

_BY_NAME = by_name(OPTIONS)


def _words(line: Line) -> Iterator[tuple[str, Position]]:
    """Split a line into words with their places. Raises SpecError."""
    text, at = line.text, 0
    while at < len(text) and text[at] != "#":
        if text[at].isspace():
            at += 1
            continue
        start, word = at, ""
        while piece := _PIECE.match(text, at):
            word += _ESCAPED.sub(r"\1", next(filter(None, piece.groups()), ""))
            at = piece.end()
        if text[at : at + 1] in ("'", '"'):
            raise SpecError(f"found no second {text[at]}, expected one", line.at(at))
        if word in ("", ":"):
            raise SpecError(f"found {word!r}, expected an option or a value", line.at(start))
        yield word, line.at(start)


_INSTEAD = dict.fromkeys(("--exclusive", "--oversubscribe"), ("--exclusive", "--oversubscribe"))
"""Options that replace each other."""


_SEPARATOR = re.compile(r"\s*(?:hetjob|packjob)(?!\S)", re.IGNORECASE)
"""The beginning of a line between the parts of a heterogeneous job."""
_IN_LATER_PARTS = (
    "--account --acctg-freq --batch --chdir --comment --context --delay-boot --error --exclude"
    " --export --extra --get-user-env --input --job-name --mcs-label --mem --nice --no-kill"
    " --open-mode --output --prefer --priority --profile --propagate --qos --reboot --reservation"
    " --time --time-min --wait-all-nodes --wckey"
)
"""Options that later parts of a heterogeneous job have, too, unless they give others."""


def _parts(lines: list[Line]) -> Iterator[list[Use]]:
    """Split lines into the options of each part, each as it is given last. Raises SpecError."""
    texts: list[list[Line]] = [[]]
    for line in lines:
        if _SEPARATOR.match(line.text) is None:
            texts[-1].append(line)
            continue
        if line.text.split()[1:]:
            message = "expected nothing behind it: sbatch passes over the rest of the line"
            raise SpecError(f"{line.text.split()[0]}: {message}", line.at(0))
        texts.append([])
    last: dict[str, Use] = {}
    for text in texts:
        last = {name: use for name, use in last.items() if name in _IN_LATER_PARTS.split()}
        for use in getopt([word for line in text for word in _words(line)], _BY_NAME):
            for name in _INSTEAD.get(use.option.name, (use.option.name,)):
                last.pop(name, None)
            last[use.option.name] = use
        memory = [name for name in ("--mem", "--mem-per-cpu", "--mem-per-gpu") if name in last]
        if len(memory) > 1:
            position = last[memory[-1]].position
            raise SpecError(f"{memory[-1]}: expected no {memory[0]} beside it", position)
        yield list(last.values())


def _finish(draft: Draft) -> None:
    """Check what several options say together, as `sbatch` does. Raises SpecError."""
    if draft.sized_at and draft.tasks is None:
        message = "expected --ntasks beside it: else this option changes the size"
        raise SpecError(message, draft.sized_at)
    if draft.tasks and draft.tasks_per_gpu and draft.tasks % draft.tasks_per_gpu:
        raise SpecError("--ntasks-per-gpu: expected a number that divides --ntasks", draft.at)
    gpus = draft.component.gpus
    has_gpus = gpus or draft.gpus_per_node or draft.gpus_per_task
    if not has_gpus and (draft.memory_per_gpu_mb or draft.cpus_per_gpu):
        raise SpecError("--mem-per-gpu and --cpus-per-gpu: expected GPUs beside it", draft.at)
    if draft.tasks_per_gpu and not has_gpus and draft.tasks is None:
        raise SpecError("--ntasks-per-gpu: expected --gpus or --ntasks beside it", draft.at)
    if draft.gpus_per_task and not gpus and _has_no_tasks(draft):
        raise SpecError("--gpus-per-task: expected --gpus or --ntasks beside it", draft.at)
    if gpus and draft.gpus_per_node and draft.nodes is None:
        draft.nodes = -(-gpus // draft.gpus_per_node)
    if gpus and (draft.gpus_per_node or draft.gpus_per_task):
        kind = draft.component.gpu_type
        draft.shape.append(f"--gpus={kind}:{gpus}" if kind else f"--gpus={gpus}")


def _has_no_tasks(draft: Draft) -> bool:
    """Return True if no option tells the number of tasks."""
    return draft.tasks is None and draft.nodes is None and draft.tasks_per_node is None


_VARIABLES = {
    "SLURM_SUBMIT_DIR": "folder",
    **dict.fromkeys(("SLURM_NTASKS", "SLURM_NPROCS"), "tasks"),
    **dict.fromkeys(("SLURM_CPUS_PER_TASK", "SLURM_CPUS_ON_NODE"), "cpus_per_task"),
    **dict.fromkeys(("SLURM_JOB_NUM_NODES", "SLURM_NNODES"), "hosts"),
    **dict.fromkeys(("SLURM_NTASKS_PER_NODE", "SLURM_TASKS_PER_NODE"), "tasks_per_host"),
    "SLURM_JOB_NAME": "KOALA_NAME",
    **dict.fromkeys(("SLURM_JOB_ID", "SLURM_JOBID"), "KOALA_CLAIM"),
    **dict.fromkeys(("SLURM_JOB_NODELIST", "SLURM_NODELIST"), "KOALA_BUNDLE"),
    **dict.fromkeys(("SLURM_PROCID", "SLURM_LOCALID"), "KOALA_PROCESS"),
    "SLURM_GPUS": "KOALA_GPUS",
    **dict.fromkeys(("SLURM_ARRAY_TASK_ID", "SLURM_ARRAY_JOB_ID", "SLURM_TMPDIR"), ""),
    **dict.fromkeys(("SLURM_MEM_PER_NODE", "SLURM_MEM_PER_CPU", "SLURM_SUBMIT_HOST"), ""),
    **dict.fromkeys(("SLURM_JOB_PARTITION", "SLURM_JOB_ACCOUNT", "SLURM_CLUSTER_NAME"), ""),
}

SBATCH = Directives(
    title="Slurm",
    prefixes=("#SBATCH", "#SLURM"),
    options=OPTIONS,
    parts=_parts,
    replaced=re.compile(r"%[0-9]*[A-Za-z%]"),
    finish=_finish,
    variables=_VARIABLES,
)
