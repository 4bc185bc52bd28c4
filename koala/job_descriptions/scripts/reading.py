"""Batch scripts as components: converts the directives of batch systems to RSL attributes.

A script keeps its meaning or is refused:

- Its text becomes the program: `executable` is the interpreter of its first line, the text its
  argument. So nothing has to be copied to the site.
- Each kind of batch system has a table of options (`Option`): what Koala reads, what it passes on
  to a site of the same kind as it is, what is refused, because something else would run without it,
  and what changes nothing here. An option that is in no table is an error.
- A script may have directives of several kinds. Those of its site's kind count, or the first ones.
"""

from __future__ import annotations

import re
import shlex
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import lru_cache
from importlib.metadata import entry_points
from itertools import cycle
from pathlib import PurePosixPath

from koala.core.model.job_spec import ComponentSpec, JobSpec, JobType
from koala.core.model.values import SiteName
from koala.errors import Position, SpecError
from koala.job_descriptions.scripts.draft import (
    PROGRAM_OPTIONS,
    Draft,
    ScriptSite,
    gpus_of,
    memory_mb_of,
    processors_of,
    set_paths,
)
from koala.job_descriptions.scripts.options import Directives, Fate, Line, Use
from koala.job_descriptions.scripts.steps import texts_of_parts
from koala.job_descriptions.scripts.variables import check_variables

GROUP = "koala.script_directives"
"""Group of the entry points that name the kinds of directives, each a `Directives`."""
OTHER_DIRECTIVE = re.compile(r"(#[A-Z]{3,})[ \t]+-[A-Za-z-]")
"""A line such as `#BSUB -n`, which another batch system would read."""
SCRIPT_BYTES_MAX = 100_000
"""Limit on a script's size; one argument of a program may have slightly more on Linux."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ScriptJob:
    """A job made of scripts, and the warnings about skipped directives."""

    spec: JobSpec
    warnings: tuple[str, ...] = ()


NOWHERE = ScriptSite()


def read_scripts(
    scripts: list[tuple[str, str, str]],
    *,
    sites: Mapping[str, ScriptSite] | None = None,
) -> ScriptJob:
    """Read the job of scripts, each with its site, its name and its text; a script with several
    parts may have a site for each, between commas. `sites` are those that are known. Raises
    SpecError with the name of the script and the place in it."""
    components: list[ComponentSpec] = []
    warnings: list[str] = []
    for site_names, name, text in scripts:
        known = [(sites or {}).get(site, ScriptSite(name=site)) for site in site_names.split(",")]
        try:
            parts, notes = read_script(text, name=PurePosixPath(name).name, sites=known)
        except SpecError as error:
            raise SpecError(f"{name}: {error.message}", error.position) from error
        for part, site in zip(parts, cycle(known), strict=False):
            components.append(replace(part, site=SiteName(site.name) if site.name else None))
        warnings += [f"{name}: {warning}" for warning in notes]
    names = {component.label for component in components}
    name = (names.pop() if len(names) == 1 else None) or ""
    components = _distinct(components)
    return ScriptJob(
        spec=JobSpec(components=tuple(components), name=name),
        warnings=tuple(dict.fromkeys(warnings)),  # a script may be given at several sites
    )


def read_script(
    text: str, *, name: str = "", sites: list[ScriptSite] | None = None
) -> tuple[list[ComponentSpec], list[str]]:
    """Read the component of one script, or of each part of a heterogeneous job, and the warnings.
    `sites` are one for all of them or one for each; the components have none yet. Raises
    SpecError."""
    _check_text(text)
    sites = sites or [NOWHERE]
    kind, lines, warnings = _chosen(text, sites[0])
    parts = list(kind.parts(lines)) if kind else [[]]
    if len(sites) not in (1, len(parts)):
        raise SpecError(f"found {len(sites)} sites for a script, expected {len(parts)} or one")
    texts, more = texts_of_parts(text, len(parts)) if len(parts) > 1 else ([text], [])
    warnings += more
    drafts = []
    for own, uses, site in zip(texts, parts, cycle(sites), strict=False):
        draft = _draft(own, uses, kind, name, site)
        check_variables(draft, text, _kinds(), kind.title if kind else "", site)
        drafts.append(draft)
    return [draft.component for draft in drafts], warnings + [
        warning for draft in drafts for warning in draft.warnings
    ]


def system_of_script(text: str) -> str | None:
    """Return the title of the batch system that a script's directives are for, None where it has
    none. Raises SpecError for directives that nobody here reads."""
    kind, _, _ = _chosen(text, NOWHERE)
    return None if kind is None else kind.title


def _draft(
    text: str, uses: list[Use], kind: Directives | None, name: str, site: ScriptSite
) -> Draft:
    """Read a component by its options. Raises SpecError."""
    draft = Draft(ComponentSpec(executable="", arguments=(text,), job_type=JobType.SINGLE))
    if not text:
        draft.set(executable="/bin/true", arguments=())
    # A shell that an option names needs no first line.
    elif not any(use.option.name == "-S" for use in uses):
        draft.set(**_interpreter(text))
    for use in uses:
        draft.at = use.position
        try:
            assert kind is not None
            _apply(draft, use, kind, site)
        except SpecError as error:
            raise SpecError(error.message, use.position) from error
    if kind is not None:
        _complete(draft, kind, site, name)
    return draft


def _apply(draft: Draft, use: Use, kind: Directives, site: ScriptSite) -> None:
    """Let an option have its effect. Raises SpecError."""
    option, fate = use.option, use.option.fate
    if fate is Fate.REFUSED:
        raise SpecError(f"{option.name}: {option.note}")
    if option.read is not None:
        native = len(draft.native)
        option.read(draft, use.value)
        if len(draft.native) > native:
            _check_native(draft, " ".join(draft.native[native:]), kind, site)
    elif fate in (Fate.PASSED, Fate.TUNING):
        if fate is Fate.TUNING and (obstacle := _obstacle(kind, site)):
            draft.warn(f"{option.name} is left out: {obstacle}")
            return
        draft.native += use.native
        _check_native(draft, option.name, kind, site)
    elif option.note:
        draft.warn(f"{option.name} is left out: {option.note}")


def _is_at_home(kind: Directives, site: ScriptSite) -> bool:
    """Return True unless a site is known to have another batch system."""
    return site.system in (None, kind.title)


def _obstacle(kind: Directives, site: ScriptSite) -> str:
    """Describe why options of a batch system cannot be passed on; empty if they can."""
    if not _is_at_home(kind, site):
        has = f"has {site.system}" if site.system else "has no batch system"
        return f"it is for {kind.title}, and {site.name} {has}"
    return "" if site.takes_native else f"{site.name} passes nothing on (lrm.native of its agent)"


def _check_native(draft: Draft, what: str, kind: Directives, site: ScriptSite) -> None:
    """Check that what a script passes on can be said at its site. Raises SpecError."""
    obstacle = _obstacle(kind, site)
    if site.system == "":
        draft.warn(f"{what} is left out: {obstacle}")
        draft.native.clear()
    elif obstacle:
        raise SpecError(f"{what}: {obstacle}: give it a script of its own")


def _complete(draft: Draft, kind: Directives, site: ScriptSite, name: str) -> None:
    """Set what follows from several options. Raises SpecError."""
    can_shape = not _obstacle(kind, site)
    kind.finish(draft)
    gpus = gpus_of(draft)
    processors = processors_of(draft, gpus)
    draft.set(
        processors=processors,
        hosts=draft.nodes and min(draft.nodes, processors // draft.cpus_per_task),
        tasks_per_host=draft.tasks_per_node,
        cpus_per_task=draft.cpus_per_task if draft.cpus_per_task > 1 else None,
        gpus=gpus,
        environment=tuple(sorted(draft.environment.items())),
        memory_min_mb=memory_mb_of(draft, processors, gpus, is_spread=can_shape)
        if not (can_shape and draft.is_memory_native)
        else None,
    )
    if can_shape:
        draft.native += draft.shape
    elif draft.shape and _is_at_home(kind, site):
        words = [word.partition("=")[0] for word in draft.shape if word.startswith("-")]
        names = ", ".join(dict.fromkeys(words))
        draft.warn(f"{names} only tell the size: {_obstacle(kind, site)}")
    draft.set(native=shlex.join(draft.native) or None)
    set_paths(draft, kind.replaced, draft.component.label or name)


# The text ----------------------------------------------------------------------------------------


def _check_text(text: str) -> None:
    """Check what no batch system runs. Raises SpecError."""
    if len(text.encode()) > SCRIPT_BYTES_MAX:
        raise SpecError(
            f"the script has {len(text.encode())} bytes (expected at most {SCRIPT_BYTES_MAX})"
        )
    if "\0" in text:
        raise SpecError("the script has a NUL character")
    if text.startswith("\ufeff"):
        raise SpecError(
            "the script begins with a byte order mark, before its #!: save it as UTF-8 without one",
            Position(line=1, column=1, source=text[1:].split("\n", 1)[0]),
        )
    before, end, _ = text.partition("\r\n")
    if end:
        line = before.count("\n") + 1
        source = before.rpartition("\n")[2]
        raise SpecError(
            "the line ends as in DOS (CR LF), and a shell takes the CR for a part of it: convert"
            " the script with dos2unix, or sed -i 's/\\r$//'",
            Position(line=line, column=len(source) + 1, source=source),
        )


def _interpreter(text: str) -> dict[str, object]:
    """Return executable and arguments by the first line, whose program must take the text as an
    argument. Raises SpecError."""
    first = text.split("\n", 1)[0]
    if not first.startswith("#!"):
        raise SpecError(
            "the first line does not name an interpreter (expected, for instance, #!/bin/bash)",
            Position(line=1, column=1, source=first),
        )
    words = first[2:].split()
    at = 0
    if words and PurePosixPath(words[0]).name == "env":
        if words[1:2] == ["-S"]:  # it splits a line that the kernel takes for one word
            del words[1]
        at = next((at for at, word in enumerate(words) if at and "=" not in word), 0)
    name = PurePosixPath(words[at]).name if words else ""
    option = PROGRAM_OPTIONS.get(re.sub(r"^(python3?)[0-9.]*$", r"\1", name))
    if option is None:
        raise SpecError(
            f"interpreter {' '.join(words)!r} (expected one of {', '.join(PROGRAM_OPTIONS)}); let a"
            " shell script call the program",
            Position(line=1, column=3, source=first),
        )
    return {"executable": words[0], "arguments": (*words[1:], option, text)}


def _chosen(text: str, site: ScriptSite) -> tuple[Directives | None, list[Line], list[str]]:
    """Choose the directives that count, and return their lines and a warning for each other kind.
    Raises SpecError."""
    lines_of: dict[str, list[Line]] = {}
    others: dict[str, Position] = {}
    kinds = {prefix: kind for kind in _kinds() for prefix in kind.prefixes}
    is_head = True
    for number, line in enumerate(text.split("\n"), start=1):
        is_head = is_head and (not line.strip() or line.lstrip().startswith("#"))
        prefix = next((prefix for prefix in kinds if line.startswith(prefix)), None)
        if prefix is not None and (is_head or kinds[prefix].is_whole):
            at = Position(line=number, column=len(prefix) + 1, source=line)
            rest = Line(text=line[len(prefix) :], position=at)
            lines_of.setdefault(kinds[prefix].title, []).append(rest)
        elif is_head and (directive := OTHER_DIRECTIVE.match(line)):
            others.setdefault(directive[1], Position(line=number, column=1, source=line))
    if not lines_of:
        if others:
            prefix, position = next(iter(others.items()))
            allowed = ", ".join(kind.prefixes[0] for kind in _kinds())
            raise SpecError(f"{prefix} directives (expected one of {allowed})", position)
        return None, [], []
    name = site.system if site.system in lines_of else next(iter(lines_of))
    chosen = next(kind for kind in _kinds() if kind.title == name)
    for kind in _kinds():
        if kind.title in lines_of and kind is not chosen:
            others[kind.prefixes[0]] = lines_of[kind.title][0].position
    warnings = [
        f"line {at.line}, column 1: {prefix} is left out: the {chosen.prefixes[0]} lines count"
        for prefix, at in others.items()
    ]
    return chosen, lines_of[name], warnings


@lru_cache(maxsize=1)
def _kinds() -> tuple[Directives, ...]:
    """Find the kinds of directives that are installed, by entry point."""
    return tuple(point.load() for point in entry_points(group=GROUP))


# Labels ------------------------------------------------------------------------------------------


def _distinct(components: list[ComponentSpec]) -> list[ComponentSpec]:
    """Make labels distinct: scripts of one name at several sites get the site's name as a suffix,
    and at one site a number."""
    by_label = Counter(component.label for component in components)
    by_place = Counter((component.label, component.site) for component in components)
    distinct: list[ComponentSpec] = []
    for index, component in enumerate(components):
        words = [component.label or ""]
        if by_label[component.label] > 1:
            words.append(component.site or "")
        if by_place[component.label, component.site] > 1:
            words.append(str(index))
        label = "-".join(word for word in words if word) if component.label else None
        distinct.append(replace(component, label=label))
    return distinct
