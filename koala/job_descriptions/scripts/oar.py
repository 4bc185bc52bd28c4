"""`#OAR` directives of batch scripts, as components.

Lines are split as `oarsub -S` of OAR 2.6 splits them: it scans the whole file; a line has one
option, and all that follows is its value, without quotes or comments.
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterator

from koala.errors import SpecError
from koala.job_descriptions.scripts.draft import Draft, output_file, whole, whole_minutes, wish
from koala.job_descriptions.scripts.options import (
    Directives,
    Fate,
    Line,
    Option,
    Use,
    Values,
    by_name,
    rows,
)

READ, PASSED, REFUSED, LEFT_OUT = Fate.READ, Fate.PASSED, Fate.REFUSED, Fate.LEFT_OUT
HOSTS = ("nodes", "host", "network_address")
GPUS = ("gpu", "gpudevice")


def _resources(draft: Draft, text: str) -> None:
    """Read `/nodes=2/core=8,walltime=1:00:00`."""
    request, _, limit = text.partition("walltime")
    if limit:
        numbers = limit.strip(" =").split(":")
        if not all(number.isdigit() for number in numbers) or len(numbers) > 3:
            raise SpecError(f"walltime{limit} (expected H, H:M or H:M:S)")
        hours, minutes, seconds = (*map(int, numbers), 0, 0)[:3]
        draft.set(wall_time_s=whole_minutes((hours * 60 + minutes) * 60.0 + seconds))
    properties = re.findall(r"\{([^}]*)\}", request)
    if properties:
        draft.native += ["-p", " AND ".join(properties)]
    counts: dict[str, int] = {}
    for level in filter(None, re.sub(r"\{[^}]*\}", "", request).strip(" ,").split("/")):
        match = re.fullmatch(r"(\w+)=(\d+)", level.strip(), re.ASCII)
        if match is None:
            raise SpecError(f"-l {request} (expected one request, such as /nodes=2/core=8)")
        counts[match[1]] = whole(f"-l {match[1]}=", match[2])
    unknown = set(counts) - {*HOSTS, *GPUS, "cpu", "core"}
    hosts = math.prod(counts.get(name, 1) for name in HOSTS)
    gpus = math.prod(counts.get(name, 1) for name in GPUS)
    has_gpus = bool(set(counts) & set(GPUS))
    if unknown or not ("core" in counts or has_gpus or not counts):
        message = "expected core=N or gpu=N: a component has a number of processors"
        raise SpecError(f"-l {request}: {message}")
    draft.tasks = hosts * gpus * counts.get("cpu", 1) * counts.get("core", 1)
    draft.nodes = hosts if set(counts) & set(HOSTS) else None
    draft.set(gpus=hosts * gpus if has_gpus else None)


_output, _error = output_file("output"), output_file("error")
_IS_ARRAY = "a component is one program; submit a copy of the script for each member"
_NO_KEY = "the site's agent starts the processes of other machines"

OPTIONS: tuple[Option, ...] = (
    Option(
        ("-l", "--resource"),
        READ,
        "`count`, `hostCount`, `gpus`, `maxWallTime`; one request, with cores or GPUs",
        _resources,
    ),
    Option(("-q", "--queue"), READ, "`queue`", wish("-q", "queue")),
    Option(("--project",), READ, "`project`", wish("--project", "project")),
    Option(("-n", "--name"), READ, "`label`", wish("-n", "label")),
    Option(("-d", "--directory"), READ, "`directory`", wish("-d", "directory")),
    Option(("-O", "--stdout"), READ, "`stdout`; a name with a pattern is left out", _output),
    Option(("-E", "--stderr"), READ, "`stderr`; a name with a pattern is left out", _error),
    *rows(PASSED, "-p,--property"),
    Option(("--notify",), LEFT_OUT, "`notify` in RSL tells of the end"),
    Option(("--checkpoint",), LEFT_OUT, "Koala itself ends a program at its limit"),
    Option(("--signal",), LEFT_OUT, "Koala itself ends a program at its limit"),
    Option(("-k", "--use-job-key"), LEFT_OUT, _NO_KEY, values=Values.NONE),
    Option(("-e", "--export-job-key-to-file"), LEFT_OUT, _NO_KEY),
    Option(("-i", "--import-job-key-from-file"), LEFT_OUT, _NO_KEY),
    Option(("--import-job-key-inline-priv",), LEFT_OUT, _NO_KEY),
    Option(("-t", "--type"), REFUSED, "a type could start a job twice; submit it by oarsub"),
    Option(("--hold",), REFUSED, "submit it when it may start", values=Values.NONE),
    Option(("-a", "--anterior"), REFUSED, "submit it with koala submit --after JOB:any"),
    Option(("--array",), REFUSED, _IS_ARRAY),
    Option(("--array-param-file",), REFUSED, _IS_ARRAY),
    Option(("-s", "--stagein"), REFUSED, "use (inputs=...) in RSL"),
    Option(("--stagein-md5sum",), REFUSED, "use (inputs=...) in RSL"),
)
"""All options that `oarsub -S` reads in scripts."""

_BY_NAME = by_name(OPTIONS)


def _parts(lines: list[Line]) -> Iterator[list[Use]]:
    """Read one option on each line; of most the last one counts. Raises SpecError."""
    uses = []
    for line in lines:
        match = re.fullmatch(r"(\s+)(--[a-z0-9-]+|-[A-Za-z])[\s=]*(.*?)\s*", line.text)
        if match is None or (option := _BY_NAME.get(match[2])) is None:
            raise SpecError(f"{line.text.strip()} is not an option", line.at(0))
        is_missing = (option.values is Values.ONE) != bool(match[3])
        if is_missing:
            raise SpecError(f"{match[2]}: expected {option.values} value", line.at(len(match[1])))
        uses.append(Use(option=option, value=match[3], position=line.at(len(match[1]))))
    if sum(use.option.name == "-l" for use in uses) > 1:
        position = next(use.position for use in reversed(uses) if use.option.name == "-l")
        raise SpecError("-l: expected once: a component has a fixed size", position)
    yield list({use.option.name: use for use in uses}.values())


_VARIABLES = {
    **dict.fromkeys(("OAR_WORKDIR", "OAR_WORKING_DIRECTORY", "OAR_O_WORKDIR"), "folder"),
    "OAR_JOB_NAME": "KOALA_NAME",
    **dict.fromkeys(("OAR_JOB_ID", "OAR_JOBID"), "KOALA_CLAIM"),
    **dict.fromkeys(("OAR_NODEFILE", "OAR_NODE_FILE", "OAR_FILE_NODES"), "KOALA_BUNDLE"),
    **dict.fromkeys(("OAR_ARRAY_INDEX", "OAR_ARRAY_ID", "OAR_RESOURCE_PROPERTIES_FILE"), ""),
}

OARSUB = Directives(
    title="OAR",
    prefixes=("#OAR",),
    options=OPTIONS,
    parts=_parts,
    replaced=re.compile(r"%\w+%"),
    is_whole=True,
    variables=_VARIABLES,
)
