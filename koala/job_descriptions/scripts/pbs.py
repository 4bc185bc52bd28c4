"""`#PBS` directives of batch scripts (OpenPBS, PBS Professional, and the older nodes=N:ppn=M), as
components. Written from the manual pages of OpenPBS 23; no live server was to be had."""

from __future__ import annotations

import math
import re
import shlex
from collections.abc import Iterator

from koala.errors import SpecError
from koala.job_descriptions.scripts.draft import (
    Draft,
    output_file,
    read_export,
    read_shell,
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

READ, TUNING, REFUSED, LEFT_OUT = Fate.READ, Fate.TUNING, Fate.REFUSED, Fate.LEFT_OUT
MEMORY = ("mem", "pmem", "vmem", "pvmem")
_BYTES = {"": 1, **{letter: 1024**power for power, letter in enumerate("kmgt", start=1)}}


def _resources(draft: Draft, text: str) -> None:
    """Read `-l select=2:ncpus=8:mem=4gb`, or `-l nodes=2:ppn=8,walltime=1:00:00`."""
    for word in text.split(","):
        name, _, value = word.partition("=")
        if name == "walltime":
            numbers = value.split(".")[0].split(":")
            if not all(number.isdigit() for number in numbers) or len(numbers) > 3:
                raise SpecError(f"-l {word} (expected seconds, or HH:MM:SS)")
            seconds = 0
            for number in numbers:
                seconds = seconds * 60 + int(number)
            draft.set(wall_time_s=whole_minutes(float(seconds)))
        elif name in ("select", "nodes"):
            _chunks(draft, value)
        elif name == "place":
            kinds = value.split(":")
            draft.set(is_exclusive=any(kind in ("excl", "exclhost") for kind in kinds))
        else:
            _chunk(draft, name, value)


def _chunks(draft: Draft, text: str) -> None:
    """Read the chunks of `select` or `nodes`, all of one kind."""
    if "+" in text:
        raise SpecError(f"{text} (expected one kind of chunk); the others are components")
    count, *parts = text.split(":")
    if not count.isdigit():
        count, parts = "1", [count, *parts]
    draft.nodes = whole("chunks", count)
    for part in parts:
        _chunk(draft, *part.partition("=")[::2])


def _chunk(draft: Draft, name: str, value: str) -> None:
    """Read a resource of a chunk."""
    if name in ("ncpus", "ppn"):
        draft.tasks_per_node = whole(name, value)
    elif name == "ngpus":
        draft.gpus_per_node = whole(name, value) if value.strip("0") else None
    elif name in MEMORY:
        match = re.fullmatch(r"(\d{1,12})([kmgt]?)b?", value.lower(), re.ASCII)
        if match is None:
            raise SpecError(f"{name}={value} (expected a size such as 500mb or 4gb)")
        size_mb = math.ceil(int(match[1]) * _BYTES[match[2]] / 1024**2)
        is_of_each = name in ("pmem", "pvmem")
        setattr(draft, "memory_per_cpu_mb" if is_of_each else "memory_mb", max(1, size_mb))
    elif name == "ompthreads":
        draft.environment["OMP_NUM_THREADS"] = str(whole(name, value))
    elif re.fullmatch(r"[A-Za-z]\w*", name) and value.lower() in ("", "true"):
        known = (draft.component.constraint or "").split("&")
        draft.set(constraint="&".join(word for word in (*known, name) if word))
    elif name != "mpiprocs":
        raise SpecError(
            f"{name}={value} (expected ncpus, mpiprocs, ompthreads, ngpus, mem, walltime, place,"
            " or features as NAME=True)"
        )


def _path(text: str) -> str:
    return text.rpartition(":")[2]


def _join(draft: Draft, text: str) -> None:
    draft.is_joined = text in ("oe", "eo")


_output, _error = output_file("output", _path), output_file("error", _path)

OPTIONS: tuple[Option, ...] = (
    Option(
        ("-l",),
        READ,
        "chunks of one kind, `ncpus`, `ppn`: `count`, `hostCount`; `ngpus`: `gpus`; `mem`:"
        " `minMemory`; `walltime`: `maxWallTime`; `place=excl`: `exclusive`; features:"
        " `constraint`",
        _resources,
    ),
    Option(("-q",), READ, "`queue`", wish("-q", "queue")),
    Option(("-A",), READ, "`project`", wish("-A", "project")),
    Option(("-N",), READ, "`label`", wish("-N", "label")),
    Option(("-o",), READ, "`stdout`; a folder, or a name with a pattern, is left out", _output),
    Option(("-e",), READ, "`stderr`; a folder, or a name with a pattern, is left out", _error),
    Option(("-j",), READ, "oe, eo: `stderr` is `stdout`", _join),
    Option(("-v",), READ, "NAME=VALUE: `environment`", read_export),
    Option(("-S",), READ, "`executable`", read_shell),
    *rows(TUNING, "-p"),
    Option(
        ("-V",),
        LEFT_OUT,
        "the program gets the environment of the site's agent",
        values=Values.NONE,
    ),
    Option(("-m",), LEFT_OUT, "`koala submit --watch` waits, `notify` in RSL tells of the end"),
    Option(("-M",), LEFT_OUT, "no mail is sent"),
    Option(("-r",), LEFT_OUT, "Koala itself places a job again whose site failed"),
    *rows(LEFT_OUT, "-k -R -u"),
    *rows(LEFT_OUT, "-z -f", Values.NONE),
    Option(("-P",), REFUSED, "name the project in the agent's configuration (lrm.project)"),
    Option(
        ("-J", "-t"), REFUSED, "a component is one program; submit a copy of the script for each"
    ),
    Option(("-W",), REFUSED, "submit it with koala submit --after JOB, or by qsub"),
    Option(("-a",), REFUSED, "use (deadline=...) in RSL"),
    Option(("-c",), REFUSED, "a checkpoint would start the job again"),
    Option(("-C",), REFUSED, "write lines with #PBS"),
    Option(("-h",), REFUSED, "submit it when it may start", values=Values.NONE),
    Option(("-I", "-X"), REFUSED, "a job of Koala has no terminal", values=Values.NONE),
)
"""All options of `qsub` of OpenPBS (qsub(1B))."""

_BY_NAME = by_name(OPTIONS)
_ADDED_UP = ("-l", "-v")


def _parts(lines: list[Line]) -> Iterator[list[Use]]:
    """Split each line into options; of most the last one counts. Raises SpecError."""
    uses: list[Use] = []
    for line in lines:
        try:
            words = shlex.split(line.text, comments=True)
        except ValueError as error:
            raise SpecError(str(error), line.at(0)) from error
        placed = []
        offset = 0
        for word in words:
            offset = max(line.text.find(word, offset), offset)
            placed.append((word, line.at(offset)))
        uses += getopt(placed, _BY_NAME)
    last = {use.option.name: use for use in uses}
    yield [use for use in uses if use.option.name in _ADDED_UP or use is last[use.option.name]]


def _finish(draft: Draft) -> None:
    """Count processors of all chunks; a component has one machine at PBS sites."""
    draft.tasks = (draft.nodes or 1) * (draft.tasks_per_node or 1)
    if draft.gpus_per_node:
        draft.set(gpus=draft.gpus_per_node * (draft.nodes or 1))
    draft.tasks_per_node = None
    if draft.nodes == 1:
        draft.nodes = None
    elif draft.nodes:
        draft.warn(f"{draft.nodes} chunks: at a PBS site a component has one machine")


_VARIABLES = {
    "PBS_O_WORKDIR": "folder",
    **dict.fromkeys(("PBS_NP", "NCPUS"), "processors"),
    "PBS_NUM_NODES": "hosts",
    "PBS_NUM_PPN": "tasks_per_host",
    "PBS_JOBNAME": "KOALA_NAME",
    "PBS_JOBID": "KOALA_CLAIM",
    "PBS_NODEFILE": "KOALA_BUNDLE",
    **dict.fromkeys(("PBS_ARRAY_INDEX", "PBS_ARRAYID", "PBS_O_HOME", "PBS_O_HOST"), ""),
    **dict.fromkeys(("PBS_QUEUE", "PBS_ENVIRONMENT", "PBS_JOBDIR"), ""),
}

QSUB = Directives(
    title="PBS",
    prefixes=("#PBS",),
    options=OPTIONS,
    parts=_parts,
    replaced=re.compile(r"\^\w+\^|\$\{?PBS_\w+\}?|\$\{?HOME\}?"),
    finish=_finish,
    variables=_VARIABLES,
)
