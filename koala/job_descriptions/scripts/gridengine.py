"""`#$` directives of batch scripts (Grid Engine), as components.

Lines are split as `qsub` splits them, found by experiment with Son of Grid Engine 8.1.9: it scans
the whole file; a value stands on the line of its option; `#` outside of quotes ends a line, also
within a word; `-soft` counts up to the end of its line; of an option, and of a resource, that is
given twice the last one counts.
"""

from __future__ import annotations

import math
import re
import shlex
from collections.abc import Iterator
from decimal import Decimal

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
    rows,
)

TIMES = ("h_rt", "s_rt")
MEMORY = ("h_vmem", "s_vmem", "mem_free", "mf")
GPUS = ("gpu", "gpus", "ngpus")
_SIZE = re.compile(r"(\d{1,12}(?:\.\d{0,6})?)([kKmMgGtT]?)", re.ASCII)
_BYTES = {
    "": 1,
    **{letter: 1000**power for power, letter in enumerate("kmgt", start=1)},
    **{letter: 1024**power for power, letter in enumerate("KMGT", start=1)},
}


def gridengine_seconds(text: str) -> float | None:
    """Parse Grid Engine's times: seconds, or HH:MM:SS with parts that may be missing; None for no
    limit. Raises SpecError."""
    if text.upper() == "INFINITY":
        return None
    if re.fullmatch(r"\d{1,12}(\.\d*)?(e\d)?", text, re.ASCII):
        return float(int(float(text)))
    match = re.fullmatch(r"(\d*):(\d*):(\d*)", text, re.ASCII)
    if match is None or not any(match.groups()):
        raise SpecError(f"invalid time {text!r} (expected seconds, HH:MM:SS or INFINITY)")
    hours, minutes, seconds = (int(number or 0) for number in match.groups())
    return float((hours * 60 + minutes) * 60 + seconds)


def _resources(draft: Draft, text: str) -> None:
    """Read `-l h_rt=1:00:00,h_vmem=2G`."""
    for word in text.split(","):
        name, _, value = word.partition("=")
        try:
            if name in TIMES:
                draft.limits[name] = gridengine_seconds(value)
                if draft.limits[name] is None:
                    draft.warn(
                        f"-l {word} is read as no limit of its own: that of the queue counts"
                    )
            elif name in ("slots", "s"):
                raise SpecError(f"found {value} (expected -pe NAME SLOTS)")
            elif draft.soft_line == draft.at.line:
                draft.native += ["-soft", "-l", word, "-hard"]
            elif name in MEMORY:
                draft.memory_per_cpu_mb, draft.is_memory_native = _megabytes(value), True
                _request(draft.shape, name, word)
            else:
                _complex(draft, name, value)
        except SpecError as error:
            raise SpecError(f"-l {name}: {error.message}") from error


def _megabytes(text: str) -> int:
    match = _SIZE.fullmatch(text)
    if match is None:
        raise SpecError(f"invalid size {text!r} (expected one such as 500M or 2.5G)")
    return max(1, math.ceil(Decimal(match[1]) * Decimal(_BYTES[match[2]]) / 1024**2))


def _request(words: list[str], name: str, word: str) -> None:
    """Request a resource of `-l`, in place of an earlier request."""
    for at in range(len(words) - 1):
        if words[at] == "-l" and words[at + 1].partition("=")[0] == name:
            del words[at : at + 2]
            break
    words += ["-l", word]


def _complex(draft: Draft, name: str, value: str) -> None:
    """Read any other resource of `-l`: GPUs, whole hosts, features, else one for `native`."""
    is_flag = value.lower() in ("", "true", "1")
    if name in GPUS:
        draft.set(gpus=whole("", value or "1") if (value or "1").strip("0") else None)
    elif name in ("exclusive", "excl") and is_flag:
        draft.set(is_exclusive=True)
    elif re.fullmatch(r"[A-Za-z_]\w*", name) and value.lower() in ("", "true"):
        known = (draft.component.constraint or "").split("&")
        draft.set(constraint="&".join(dict.fromkeys(word for word in (*known, name) if word)))
    else:
        _request(draft.native, name, f"{name}={value}" if value else name)


def _parallel(draft: Draft, text: str) -> None:
    name, _, slots = text.partition(" ")
    low, dash, high = slots.partition("-")
    if dash and low != high:
        raise SpecError(f"-pe {text} (expected one number of slots: a component has a fixed size)")
    draft.tasks = whole("-pe", low)
    draft.parallel = ["-pe", name, str(draft.tasks)]


def _join(draft: Draft, text: str) -> None:
    draft.is_joined = text[:1].lower() == "y"


def _soft(draft: Draft, _text: str) -> None:
    draft.soft_line = draft.at.line


def _hard(draft: Draft, _text: str) -> None:
    draft.soft_line = 0


def _queue(draft: Draft, text: str) -> None:
    if draft.soft_line == draft.at.line:
        raise SpecError(f"-soft -q {text} (expected a queue that is needed, without -soft)")
    known = draft.component.queue
    wish("-q", "queue")(draft, f"{known},{text}" if known else text)


def _path(text: str) -> str:
    """Return the path of [[HOST]:]PATH. Raises SpecError for one of a single host."""
    host, colon, path = text.rpartition(":")
    if host or "," in text:
        raise SpecError(f"{text} (expected one path, for all hosts)")
    return path if colon else text


def _input(draft: Draft, text: str) -> None:
    wish("-i", "stdin")(draft, _path(text))


def _own_folder(draft: Draft, _text: str) -> None:
    draft.set(directory=None)
    draft.warn("-cwd is left out: a component has a work folder of its own; -wd names another one")


def _never(option: str, note: str) -> Option:
    """Make a row for an option with yes or no, of which yes is refused."""

    def read(_draft: Draft, text: str) -> None:
        if text[:1].lower() != "n":
            raise SpecError(f"{option} {text}: {note}")

    return Option((option,), Fate.READ, f"`y` is refused: {note}", read)


def _unless(option: str, harmless: str, note: str) -> Option:
    """Make a row for an option of which one value needs no word, and the others are left out."""

    def read(draft: Draft, text: str) -> None:
        if text[:1].lower() != harmless:
            draft.warn(f"{option} {text} is left out: {note}")

    return Option((option,), Fate.LEFT_OUT, note, read)


def _binding(draft: Draft, text: str) -> None:
    where, _, strategy = text.rpartition(" ")
    if where not in ("", "set"):
        raise SpecError(f"-binding {text} (expected only a strategy, such as linear:2)")
    draft.native += ["-binding", strategy]


READ, PASSED, TUNING, REFUSED, LEFT_OUT = (
    Fate.READ,
    Fate.PASSED,
    Fate.TUNING,
    Fate.REFUSED,
    Fate.LEFT_OUT,
)
_output, _error = output_file("output", _path), output_file("error", _path)

OPTIONS: tuple[Option, ...] = (
    Option(("-pe",), READ, "`count`; passed on", _parallel, values=Values.TWO),
    Option(
        ("-l",),
        READ,
        "`h_rt`, else `s_rt`: `maxWallTime`; `h_vmem`, `s_vmem`, `mem_free`: `minMemory`, passed"
        " on; `gpu`: `gpus`; `exclusive`; features: `constraint`; others: `native`",
        _resources,
    ),
    Option(
        ("-soft",), READ, "later `-l` on its line are soft: `native`", _soft, values=Values.NONE
    ),
    Option(("-hard",), READ, "later `-l` on its line are needed", _hard, values=Values.NONE),
    Option(("-q",), READ, "`queue`", _queue),
    Option(("-P",), READ, "`project`", wish("-P", "project")),
    Option(
        ("-N",),
        READ,
        "`label`, with the site's name if several scripts have one; then the job's `name`, too",
        wish("-N", "label"),
    ),
    Option(
        ("-o",), READ, "`stdout`; a folder, and a variable but `$JOB_NAME`, is left out", _output
    ),
    Option(
        ("-e",), READ, "`stderr`; a folder, and a variable but `$JOB_NAME`, is left out", _error
    ),
    Option(("-j",), READ, "y: `stderr` is `stdout`", _join),
    Option(("-i",), READ, "`stdin`", _input),
    Option(("-wd",), READ, "`directory`", wish("-wd", "directory")),
    Option(
        ("-cwd",),
        LEFT_OUT,
        "a component has a work folder of its own; -wd names another one",
        _own_folder,
        values=Values.NONE,
    ),
    Option(("-v",), READ, "NAME=VALUE: `environment`", read_export),
    Option(("-S",), READ, "`executable`", read_shell),
    Option(("-binding",), READ, "`native`; a strategy alone", _binding),
    Option(("-ar",), READ, "`reservation`", wish("-ar", "reservation")),
    *rows(PASSED, "-c -ckpt -jc -masterq"),
    *rows(TUNING, "-A -ac -dc -js -p -R -sc"),
    Option(
        ("-V",),
        LEFT_OUT,
        "the program gets the environment of the site's agent",
        values=Values.NONE,
    ),
    Option(("-m",), LEFT_OUT, "`koala submit --watch` waits, `notify` in RSL tells of the end"),
    Option(("-M",), LEFT_OUT, "no mail is sent"),
    _unless("-r", "n", "Koala itself places a job again whose site failed"),
    _unless("-sync", "n", "`koala submit --wait` waits"),
    _unless("-shell", "y", "the script's shell runs it"),
    *rows(LEFT_OUT, "-notify -terse", Values.NONE),
    *rows(LEFT_OUT, "-C -pty -u"),
    Option(("-tc",), REFUSED, "it is for arrays, which components are not"),
    _never("-b", "the script is the program"),
    _never("-now", "use (deadline=...) in RSL"),
    Option(
        ("-w",),
        READ,
        "`v` and `p` submit nothing, and are refused",
        lambda _draft, text: _tested(text),
    ),
    Option(
        ("-t",),
        REFUSED,
        "a component is one program; submit a copy of the script for each member, with"
        " -v SGE_TASK_ID=N in place of -t",
    ),
    Option(("-hold_jid", "-hold_jid_ad"), REFUSED, "submit it with koala submit --after JOB:any"),
    Option(("-a",), REFUSED, "use (deadline=...) in RSL"),
    Option(("-dl",), REFUSED, "use (deadline=...) in RSL, which is a start"),
    Option(("-h",), REFUSED, "submit it when it may start", values=Values.NONE),
    Option(("-clear",), REFUSED, "take out the lines that it clears", values=Values.NONE),
    Option(("-jsv",), REFUSED, "let the site's administrator set it"),
    Option(("-@",), REFUSED, "the file is not at the site; write its options here"),
    Option(("-verify",), REFUSED, "use koala submit --dry-run", values=Values.NONE),
    Option(("-help",), REFUSED, "qsub submits nothing with it", values=Values.NONE),
)
"""All options of `qsub` 8.1.9 (qsub(1))."""

_BY_NAME = by_name(OPTIONS)
_COUNTS = {Values.NONE: 0, Values.ONE: 1, Values.TWO: 2}


def _tested(text: str) -> None:
    if text[:1] in ("v", "p"):
        raise SpecError(f"-w {text} is refused; use koala submit --dry-run")


_ADDED_UP = frozenset(
    ("-l", "-v", "-q", "-masterq", "-soft", "-hard", "-ac", "-dc", "-sc", "-cwd", "-wd")
)
"""Options that count each time."""


def _parts(lines: list[Line]) -> Iterator[list[Use]]:
    """Split lines into options; of most the last one counts. Raises SpecError."""
    uses = [use for line in lines for use in _uses_of(line)]
    last = {use.option.name: use for use in uses}
    yield [use for use in uses if use.option.name in _ADDED_UP or use is last[use.option.name]]


def _uses_of(line: Line) -> Iterator[Use]:
    """Split a line into options. Raises SpecError."""
    lexer = shlex.shlex(line.text, posix=True, punctuation_chars="")
    lexer.whitespace_split, lexer.escape = True, ""
    try:
        words = list(lexer)
    except ValueError as error:
        raise SpecError(str(error), line.at(0)) from error
    at, offset = 0, 0
    while at < len(words):
        name = words[at]
        offset = max(line.text.find(name, offset), offset)
        position = line.at(offset)
        option = _BY_NAME.get(name)
        if option is None:
            if name[:1] != "-":
                raise SpecError(f"{name} is not an option", position)
            raise SpecError(f"unknown option {name}: what it changes is not known here", position)
        count = _COUNTS[option.values]
        if name == "-binding" and words[at + 1 : at + 2] in (["set"], ["env"], ["pe"]):
            count = 2
        values = words[at + 1 : at + 1 + count]
        if len(values) < count:
            plural = "a value" if count == 1 else f"{count} values"
            raise SpecError(f"{name}: expected {plural} after it, on its line", position)
        yield Use(option=option, value=" ".join(values), position=position)
        at += 1 + count
        offset += len(name)


def _finish(draft: Draft) -> None:
    """Choose the time limit, hard before soft, and the parallel environment."""
    hard, soft = (draft.limits.get(name) for name in TIMES)
    if soft:
        draft.warn(
            "s_rt is left out: no signal comes before the time limit"
            + ("" if hard else ", which it becomes")
        )
    if limit := hard or soft:
        draft.set(wall_time_s=whole_minutes(limit))
    draft.shape += draft.parallel


_VARIABLES = {
    "SGE_O_WORKDIR": "folder",
    "NSLOTS": "processors",
    "NHOSTS": "hosts",
    "JOB_NAME": "KOALA_NAME",
    "JOB_ID": "KOALA_CLAIM",
    "PE_HOSTFILE": "KOALA_BUNDLE",
    **dict.fromkeys(("SGE_TASK_ID", "SGE_TASK_FIRST", "SGE_TASK_LAST", "SGE_TASK_STEPSIZE"), ""),
    **dict.fromkeys(("SGE_HGR_gpu", "SGE_O_HOST", "SGE_O_HOME", "SGE_O_LOGNAME", "SGE_ROOT"), ""),
}

QSUB = Directives(
    title="Grid Engine",
    prefixes=("#$",),
    options=OPTIONS,
    parts=_parts,
    replaced=re.compile(r"\$(?:JOB_NAME|JOB_ID|HOME|USER|HOSTNAME|TASK_ID)|^~[^/]*"),
    is_whole=True,
    finish=_finish,
    variables=_VARIABLES,
)
