"""`#$` directives of batch scripts (Grid Engine), as components."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import PurePosixPath

from koala.errors import SpecError
from koala.job_descriptions.script_draft import (
    SHELLS,
    Directives,
    Draft,
    Reader,
    accept,
    count,
    megabytes,
    read_export,
    read_path,
    whole_minutes,
)

FLAGS = {"-cwd", "-V", "-notify"}
"""Options without a value."""

REFUSED = {
    "-t": "a component is one program; submit a job for each member of an array",
    "-hold_jid": "submit it with koala submit --after JOB:any",
    "-a": "allowed is (deadline=...) in RSL",
}
"""Options without which something else would run, and alternatives for the user."""


def _resources(draft: Draft, text: str) -> None:
    """Read `-l h_rt=1:00:00,h_vmem=2G`."""
    for word in text.split(","):
        name, _, value = word.partition("=")
        if name in ("h_vmem", "s_vmem", "mem_free"):
            draft.memory_per_cpu_mb = megabytes(f"-l {name}", value)
            continue
        if name not in ("h_rt", "s_rt"):
            _complex(draft, name, value)
            continue
        numbers = value.split(":")
        if not all(number.isdigit() for number in numbers) or len(numbers) > 3:
            raise SpecError(f"-l {word}: allowed are seconds, or HH:MM:SS")
        seconds = 0
        for number in numbers:
            seconds = seconds * 60 + int(number)
        draft.set(wall_time_s=whole_minutes(float(seconds)))


def _complex(draft: Draft, name: str, value: str) -> None:
    """Read any other resource of `-l`: GPUs, whole hosts, features, else one for `native`."""
    is_flag = value.lower() in ("", "true", "1")
    if name in ("gpu", "gpus", "ngpus"):
        draft.set(gpus=count(f"-l {name}", value or "1"))
    elif name in ("exclusive", "excl") and is_flag:
        draft.set(is_exclusive=True)
    elif re.fullmatch(r"[A-Za-z_]\w*", name) and value.lower() in ("", "true"):
        known = draft.component.constraint
        draft.set(constraint=f"{known}&{name}" if known else name)
    else:
        draft.native += ["-l", f"{name}={value}" if value else name]


def _parallel(draft: Draft, text: str) -> None:
    draft.tasks = count("-pe", text.rsplit(maxsplit=1)[-1])


def _join(draft: Draft, text: str) -> None:
    draft.is_joined = text[:1].lower() == "y"


def _shell(draft: Draft, text: str) -> None:
    if PurePosixPath(text).name not in SHELLS:
        raise SpecError(f"-S {text}: allowed are {', '.join(SHELLS)}")
    draft.set(executable=text, arguments=draft.component.arguments[-2:])


READERS: dict[str, Reader] = {
    "-pe": _parallel,
    "-l": _resources,
    "-N": lambda draft, text: draft.set(label=text),
    "-o": lambda draft, text: read_path(draft, "stdout", text),
    "-e": lambda draft, text: read_path(draft, "stderr", text),
    "-j": _join,
    "-wd": lambda draft, text: draft.set(directory=text),
    "-q": lambda draft, text: draft.set(queue=text),
    "-P": lambda draft, text: draft.set(project=text),
    "-v": read_export,
    "-S": _shell,
    "-notify": accept,
    "-r": accept,
}
"""Options that are honoured."""


def _pairs(words: list[str]) -> Iterator[tuple[str, str]]:
    at = 0
    while at < len(words):
        option = words[at]
        if not option.startswith("-"):
            raise SpecError(f"{option!r} is no option")
        at += 1
        count = 0 if option in FLAGS else 2 if option == "-pe" else 1
        if at + count > len(words):
            raise SpecError(f"{option} needs {count} {'value' if count == 1 else 'values'}")
        yield option, " ".join(words[at : at + count])
        at += count


QSUB = Directives(prefix="#$", pairs=_pairs, readers=READERS, refused=REFUSED)
