"""Patterns of output files: `results/*.csv`, `**/*.log`, `plots/`.

`*`, `?` and `[...]` stand for characters of one part of a path, `**` for any number of parts. A
pattern that ends in `/` names all files below a folder. What Koala itself puts into a claim's
folder is never matched.
"""

from __future__ import annotations

import fnmatch
import os
import re

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable

FILES_MAX = 1000
"""Most files that the patterns of a component may match."""
_WILD = re.compile(r"[*?\[]")
_OWN = re.compile(r"(\.koala|inputs)(/.*)?|input|placeholder\.out|(stdout|stderr)\.[0-9]+")


def matches(pattern: str, name: str) -> bool:
    """Return True if a relative path matches a pattern, and is not a file of Koala."""
    if _OWN.fullmatch(name):
        return False
    wanted = (pattern + "**/*" if pattern.endswith("/") else pattern).split("/")
    return _match(wanted, name.split("/"))


def chosen(
    patterns: Iterable[str], names: Iterable[str], *, is_all: bool = True
) -> tuple[list[str], str]:
    """Return the names that any of the patterns matches, in order, and the problem with them.

    The problem is empty when there is none. A pattern without a wildcard must match if the names
    are those of all nodes.
    """
    patterns = list(patterns)
    matched = [name for name in sorted(names) if any(matches(wanted, name) for wanted in patterns)]
    if len(matched) > FILES_MAX:
        return (
            [],
            f"outputs match {len(matched)} files (expected at most {FILES_MAX}; an archive counts"
            " as one)",
        )
    for pattern in patterns:
        is_plain = not _WILD.search(pattern)
        if is_all and is_plain and not any(matches(pattern, name) for name in matched):
            return matched, f"outputs: {pattern} does not exist"
    return matched, ""


def files_below(folder: str) -> list[str]:
    """List the regular files below a folder by their relative paths; links are not followed."""
    files = []
    for parent, folders, names in os.walk(folder):
        below = os.path.relpath(parent, folder)
        if below == ".":
            folders[:] = [name for name in folders if not _OWN.fullmatch(name)]
        for name in names:
            path = os.path.join(parent, name)
            if os.path.isfile(path) and not os.path.islink(path):
                files.append(name if below == "." else f"{below}/{name}")
    return files


def _match(patterns: list[str], parts: list[str]) -> bool:
    """Match all parts; `states` are the patterns that may match the next part, by their index."""
    states = _begun(patterns, {0})
    for part in parts:
        following = set()
        for state in states:
            if state < len(patterns) and patterns[state] == "**":
                following.add(state)
            elif state < len(patterns) and fnmatch.fnmatchcase(part, patterns[state]):
                following.add(state + 1)
        states = _begun(patterns, following)
    return len(patterns) in states


def _begun(patterns: list[str], states: set[int]) -> set[int]:
    """Add the states after each `**`, which may stand for no part at all."""
    found = set(states)
    for state in sorted(states):
        following = state
        while following < len(patterns) and patterns[following] == "**":
            following += 1
            found.add(following)
    return found
