"""Resource quota sets, as `qconf -srqs` tells them: the slots that jobs may have at a time.

Of each set one rule holds for a slot of a queue at a host: the first whose filters do. Which users
and hosts a group (@) has is not asked for, nor which projects the jobs of others have: of a set
with such a filter nothing counts from there on, and what it does shows in what waits.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass

PLACES = ("queues", "hosts")
"""Filters on where a job runs; the others are on the job itself."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Place:
    """A queue at a host: slots in use there, and idle ones that we may have."""

    queue: str
    host: str
    used: int = 0
    idle: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class Quota:
    """Rule that holds for our jobs in these places, each place or all of them together. It is of
    all users together, or of each."""

    slots: int
    is_shared: bool
    queues: str = "*"
    hosts: str = "*"

    @property
    def is_everywhere(self) -> bool:
        """True where one number bounds all slots of a user."""
        return self.queues == self.hosts == "*"

    def group(self, place: Place) -> tuple[str, str] | None:
        """Return the part of the places with this one that has the slots together; None where the
        rule does not hold there."""
        if not (_holds(self.queues, place.queue) and _holds(self.hosts, place.host)):
            return None
        each = (self.queues[:1] == "{", self.hosts[:1] == "{")
        return (place.queue if each[0] else "", place.host if each[1] else "")


Set = tuple[Quota, ...]


def quotas_of(text: str, *, user: str, parallel_environment: str, project: str) -> tuple[Set, ...]:
    """Parse them: of each set the rules that may hold for jobs of a user, in their order."""
    ours = {"users": user, "pes": parallel_environment, "projects": project}
    return tuple(
        tuple(_rules(each, ours))
        for each in re.findall(r"\{\n(.*?)\n\}", text, re.DOTALL)
        if re.search(r"^\s*enabled\s+TRUE", each, re.MULTILINE | re.IGNORECASE)
    )


def largest(quotas: Iterable[Set]) -> int:
    """Return the largest job that they allow; 0 for no limit."""
    return min(
        (rule.slots for rules in quotas for rule in rules[:1] if rule.is_everywhere), default=0
    )


def idle_within(
    quotas: Iterable[Set],
    places: Iterable[Place],
    *,
    ours: Callable[[Place | None], int],
    all_running: int,
) -> int:
    """Return how many of the idle slots of these places a user may have. `ours` are the slots of
    the user's jobs, in a place or everywhere."""
    every = list(places)
    totals = [sum(place.idle for place in every)]
    for rules in quotas:
        groups: dict[tuple[int, tuple[str, str]], list[Place]] = {}
        total = 0
        for place in every:
            found = ((number, rule.group(place)) for number, rule in enumerate(rules))
            key = next(((number, group) for number, group in found if group is not None), None)
            if key is None:
                total += place.idle
            else:
                groups.setdefault(key, []).append(place)
        for (number, _), members in groups.items():
            rule = rules[number]
            if rule.is_everywhere:
                used = all_running if rule.is_shared else ours(None)
            else:
                used = sum(one.used if rule.is_shared else ours(one) for one in members)
            total += max(0, min(rule.slots - used, sum(one.idle for one in members)))
        totals.append(total)
    return min(totals)


def _rules(rules: str, ours: dict[str, str]) -> Iterator[Quota]:
    for words in re.findall(r"^\s*limit\s+(.*?)\s*$", rules.replace("\\\n", ""), re.MULTILINE):
        filters, _, what = re.sub(r"^name\s+\S+\s*", "", words).partition("to ")
        named = dict(re.findall(r"(\w+)\s+(\{.*?\}|\S+)", filters))
        answers = [_holds(named[key], ours.get(key, "")) for key in named if key not in PLACES]
        if False in answers:
            continue
        where = {key: named[key] for key in PLACES if key in named}
        slots = re.search(r"(?:^|,)slots=([0-9]{1,9})(?:,|$)", what.strip())
        if None in answers or slots is None or any("@" in names for names in where.values()):
            return
        is_shared = not {named.get(key, "")[:1] for key in ("users", "projects")} & {"{"}
        yield Quota(slots=int(slots[1]), is_shared=is_shared and "projects" not in named, **where)
        if not where:
            return


def _holds(filter_: str, ours: str) -> bool | None:
    """Return whether a filter names ours; None where it cannot be told."""
    names = [name.strip() for name in filter_.strip("{}").split(",")]
    if f"!{ours}" in names:
        return False
    if "*" in names or (ours and ours in names):
        return True
    return None if not ours or any(name[:1] in "@!" for name in names) else False
