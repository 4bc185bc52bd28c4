"""Variables of batch systems that a script reads, and what it finds in them at a site."""

from __future__ import annotations

import re
from collections.abc import Iterable

from koala.errors import Position
from koala.job_descriptions.scripts.draft import Draft, ScriptSite, tasks_of
from koala.job_descriptions.scripts.options import Directives

_READ = re.compile(
    r"""(?:\$\{?|environ(?:\.get\(|\[)['"]|getenv\(['"]|\$ENV\{['"]?)([A-Z]\w+)\b"""
    r"""(?!['"]?[:,]?-|:=)"""
)
"""A variable that is read, without a value for where it is missing."""
_COMMENT = re.compile(r"(^|\s)#.*")


def check_variables(
    draft: Draft, text: str, kinds: Iterable[Directives], title: str, site: ScriptSite
) -> None:
    """Warn of variables of batch systems that the script reads, and its site does not set, or sets
    to something else; those with a count are set. `title` is the system of its directives."""
    of = {name: kind for kind in kinds for name in kind.variables}
    seen = set(draft.environment)
    for number, line in enumerate(text.split("\n"), start=1):
        for match in _READ.finditer(_COMMENT.sub(r"\1", line)):
            name = match[1]
            kind = of.get(name)
            if kind is None or name in seen:
                continue
            seen.add(name)
            if re.search(rf"(?m)^\s*(?:export\s+)?{name}=", text):
                continue
            at = title if site.system is None else site.system
            if message := _problem(draft, name, kind, is_set=kind.title == at, site=site):
                draft.warn(message, Position(line=number, column=match.start(1) + 1, source=line))


def _problem(draft: Draft, name: str, kind: Directives, *, is_set: bool, site: ScriptSite) -> str:
    """Describe what a script finds in a variable; empty if it is what its author expects."""
    where = site.name or "its site"
    meaning = kind.variables[name]
    if meaning == FOLDER:
        what = "a folder of the site's agent" if is_set else "not set"
        return f"{name} is {what} at {where}: the program begins in a work folder of its own"
    if is_set:
        is_other = meaning == "KOALA_NAME"
        return f"{name} is the name of a claim at {where}: {meaning} has the job's" * is_other
    has = f" ({site.system})" if site.system else ""
    count = _count(draft, meaning)
    if count is not None:
        draft.environment[name] = str(count)
        draft.set(environment=tuple(sorted(draft.environment.items())))
        return f"{name} is not set by {where}{has}: Koala sets it to {count}"
    instead = f": {meaning} is" if meaning.startswith("KOALA_") else ""
    return f"{name} is not set by {where}{has}{instead}"


FOLDER = "folder"
"""Meaning of a variable with the folder of the submission."""


def _count(draft: Draft, meaning: str) -> int | None:
    """Return the number that a variable has by the script's directives; None for any other."""
    component = draft.component
    counts = {
        "tasks": tasks_of(draft),
        "processors": component.processors,
        "cpus_per_task": component.cpus_per_task or 1,
        "hosts": component.hosts,
        "tasks_per_host": component.tasks_per_host,
    }
    return counts.get(meaning)
