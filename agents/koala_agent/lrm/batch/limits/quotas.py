"""Resource quota sets, as `qconf -srqs` tells them: the slots that a user may have at a time."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class Quota:
    """Slots that the jobs of a user, or those of everybody together, may have."""

    slots: int
    is_shared: bool


def quotas_of(text: str, *, user: str, parallel_environment: str) -> tuple[Quota, ...]:
    """Parse them: of each set the first rule counts whose filters hold for jobs of a user.
    Of a set with filters that cannot be told here (hosts, queues, projects, groups) none does."""
    found: list[Quota] = []
    for each in re.findall(r"\{\n(.*?)\n\}", text, re.DOTALL):
        if re.search(r"^\s*enabled\s+TRUE", each, re.MULTILINE | re.IGNORECASE):
            found += _first(each, {"users": user, "pes": parallel_environment})
    return tuple(found)


def _first(rules: str, ours: dict[str, str]) -> Iterator[Quota]:
    for words in re.findall(r"^\s*limit\s+(.*?)\s*$", rules.replace("\\\n", ""), re.MULTILINE):
        filters, _, what = re.sub(r"^name\s+\S+\s*", "", words).partition("to ")
        named = dict(re.findall(r"(\w+)\s+(\{.*?\}|\S+)", filters))
        answers = [_holds(named[key], ours.get(key, "")) for key in named]
        if False in answers:
            continue
        slots = re.search(r"(?:^|,)slots=([0-9]{1,9})(?:,|$)", what.strip())
        if None not in answers and slots is not None:
            is_shared = not named.get("users", "").startswith("{")
            yield Quota(slots=int(slots[1]), is_shared=is_shared)
        return


def _holds(filter_: str, ours: str) -> bool | None:
    """Return whether a filter names ours; None where it cannot be told."""
    names = [name.strip() for name in filter_.strip("{}").split(",")]
    if f"!{ours}" in names:
        return False
    if "*" in names or (ours and ours in names):
        return True
    return None if not ours or any(name[:1] in "@!" for name in names) else False
