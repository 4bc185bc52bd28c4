"""Batch scripts as components: converts the directives of batch systems to RSL attributes.

A script keeps its meaning or is refused:

- Its text becomes the program: `executable` is the interpreter of its first line, the text its
  argument. So nothing has to be copied to the site.
- A directive that Koala cannot honour, and that changes what runs, is an error.
- A directive that only concerns the batch system itself (mail, comments) is a warning.
"""

from __future__ import annotations

import re
import shlex
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, replace
from functools import lru_cache
from importlib.metadata import entry_points
from pathlib import PurePosixPath

from koala.core.model.job_spec import ComponentSpec, JobSpec, JobType
from koala.core.model.values import SiteName
from koala.errors import Position, SpecError
from koala.job_descriptions.script_draft import (
    SHELLS,
    Directives,
    Draft,
    gpus_of,
    memory_mb_of,
    processors_of,
)

GROUP = "koala.script_directives"
"""Group of the entry points that name the kinds of directives, each a `Directives`."""
OTHER_DIRECTIVE = re.compile(r"#[A-Z]{3,}[ \t]+-")
"""A line such as `#BATCH -n`, which another batch system would read."""
SCRIPT_BYTES_MAX = 100_000
"""Limit on a script's size; one argument of a program may have slightly more on Linux."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ScriptJob:
    """A job made of scripts, and the warnings about skipped directives."""

    spec: JobSpec
    warnings: tuple[str, ...] = ()


def read_scripts(scripts: list[tuple[str, str, str]], *, owner: str = "") -> ScriptJob:
    """Read the job of scripts, each with its site, its name and its text. Raises SpecError with the
    name of the script and the place in it."""
    components: list[ComponentSpec] = []
    warnings: list[str] = []
    for site, name, text in scripts:
        try:
            component, found = read_script(text)
        except SpecError as error:
            raise SpecError(f"{name}: {error.message}", error.position) from error
        components.append(replace(component, site=SiteName(site) if site else None))
        warnings += [f"{name}: {warning}" for warning in found]
    names = {component.label for component in components}
    name = (names.pop() if len(names) == 1 else None) or ""
    components = _distinct(components)
    return ScriptJob(
        spec=JobSpec(components=tuple(components), owner=owner, name=name),  # type: ignore[arg-type]
        warnings=tuple(dict.fromkeys(warnings)),  # a script may be given at several sites
    )


def read_script(text: str) -> tuple[ComponentSpec, list[str]]:
    """Read the component of one script, without a site, and its warnings. Raises SpecError."""
    if len(text.encode()) > SCRIPT_BYTES_MAX:
        raise SpecError(
            f"the script has {len(text.encode())} bytes: allowed are {SCRIPT_BYTES_MAX}"
        )
    if "\0" in text:
        raise SpecError("the script has a NUL character")
    interpreter = _interpreter(text)
    draft = Draft(
        ComponentSpec(
            executable=interpreter[0],
            arguments=(*interpreter[1:], "-c", text),
            job_type=JobType.SINGLE,
        )
    )
    warnings: list[str] = []
    for position, kind, option, value in _directives(text):
        known = kind.readers.get(option)
        try:
            if known is not None:
                known(draft, value)
            elif option in kind.refused:
                raise SpecError(f"{option}: {kind.refused[option]}")
            elif option in kind.passed_on:
                draft.native.append(f"{option}={value}" if value else option)
            else:
                draft.warnings.append(f"{option} is left out")
        except SpecError as error:
            raise SpecError(error.message, position) from error
        warnings += [f"line {position.line}: {warning}" for warning in draft.warnings]
        draft.warnings.clear()
    gpus = gpus_of(draft)
    processors = processors_of(draft, gpus)
    draft.set(
        processors=processors,
        tasks_per_host=draft.tasks_per_node,
        cpus_per_task=draft.cpus_per_task if draft.cpus_per_task > 1 else None,
        gpus=gpus,
        environment=tuple(sorted(draft.environment.items())),
        memory_min_mb=memory_mb_of(draft, processors, gpus),
        native=shlex.join(draft.native) or None,
    )
    if draft.is_joined and draft.component.stdout:
        draft.set(stderr=draft.component.stdout)
    return draft.component, warnings


# The text ----------------------------------------------------------------------------------------


def _interpreter(text: str) -> list[str]:
    """Return the words of the first line: a shell, because it must take the text by `-c`."""
    first = text.split("\n", 1)[0]
    if not first.startswith("#!"):
        raise SpecError(
            "the first line does not name an interpreter: allowed is, for instance, #!/bin/bash",
            Position(line=1, column=1, source=first),
        )
    words = first[2:].split()
    name = PurePosixPath(words[0]).name if words else ""
    if name == "env" and len(words) > 1:
        name = words[1]
    if name not in SHELLS:
        raise SpecError(
            f"interpreter {' '.join(words)!r}: allowed are {', '.join(SHELLS)}; let a shell script"
            " call the program",
            Position(line=1, column=3, source=first),
        )
    return words


def _directives(text: str) -> Iterator[tuple[Position, Directives, str, str]]:
    """List the options and values of all kinds of directives, in order, up to the first line that
    is neither empty nor a comment."""
    kinds = {kind.prefix: kind for kind in _kinds()}
    for number, line in enumerate(text.split("\n"), start=1):
        if line.strip() and not line.startswith("#"):
            return
        prefix = line.split(maxsplit=1)[0] if line.strip() else ""
        position = Position(line=number, column=1, source=line)
        if (kind := kinds.get(prefix)) is not None:
            try:
                words = shlex.split(line[len(prefix) :], comments=True)
                yield from ((position, kind, option, value) for option, value in kind.pairs(words))
            except (ValueError, SpecError) as error:
                raise SpecError(getattr(error, "message", str(error)), position) from error
        elif OTHER_DIRECTIVE.match(line):
            allowed = " and ".join(sorted(kinds, reverse=True))
            raise SpecError(f"{prefix} directives: allowed are {allowed}", position)


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
    found: list[ComponentSpec] = []
    for index, component in enumerate(components):
        words = [component.label or ""]
        if by_label[component.label] > 1:
            words.append(component.site or "")
        if by_place[component.label, component.site] > 1:
            words.append(str(index))
        label = "-".join(word for word in words if word) if component.label else None
        found.append(replace(component, label=label))
    return found
