"""Hosts and queues, as `qhost` lists them: slots that are idle, and why others are not."""

from __future__ import annotations

import math
import re
import xml.etree.ElementTree as ET
from collections.abc import Collection
from dataclasses import dataclass
from fnmatch import fnmatchcase as fnmatch

from koala.errors import LocalManagerError
from koala_agent.lrm.dialect import is_count

SHUT = {
    "D": "its calendar has switched it off",
    "C": "its calendar has suspended it",
    "d": "it is disabled",
    "s": "it is suspended",
    "S": "another queue suspends it",
    "E": "it is in error",
    "u": "its hosts give no answer",
    "a": "its hosts are overloaded",
}
"""Words for states of queues."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Host:
    """A host with its queues, and the slots that all of them together may still give."""

    name: str
    free: float
    queues: dict[str, Slots]

    @classmethod
    def read(cls, host: ET.Element) -> Host:
        free = [one.text or "" for one in host.iter("resourcevalue") if one.get("name") == "slots"]
        queues = {queue.get("name") or "": Slots.read(queue) for queue in host.iter("queue")}
        limit = (
            float(free[0]) if free and re.fullmatch(r"[0-9]{1,9}(\.[0-9]*)?", free[0]) else math.inf
        )
        return cls(name=host.get("name") or "", free=limit, queues=queues)

    def idle(self, ours: Collection[str]) -> int:
        idle = sum(one.idle for name, one in self.queues.items() if name in ours)
        return int(min(idle, self.free))

    def processors(self, ours: Collection[str]) -> int:
        used = sum(one.used for one in self.queues.values())
        mine = [one for name, one in self.queues.items() if name in ours]
        return int(
            min(sum(one.used if one.is_closed else one.slots for one in mine), self.free + used)
        )

    def closed(self, ours: Collection[str]) -> int:
        """Return what would be idle, too, if all queues took jobs."""
        mine = [one for name, one in self.queues.items() if name in ours]
        whole = sum(one.slots - one.used if one.is_closed else one.idle for one in mine)
        return int(min(whole, self.free)) - self.idle(ours)


@dataclass(frozen=True, slots=True, kw_only=True)
class Slots:
    """Slots of a queue on one host."""

    slots: int
    used: int
    state: str

    @classmethod
    def read(cls, queue: ET.Element) -> Slots:
        told = {one.get("name"): (one.text or "").strip() for one in queue.iter("queuevalue")}
        slots, used = told.get("slots", ""), told.get("slots_used", "")
        if not (is_count(slots) and is_count(used)):
            raise LocalManagerError(f"qhost: {slots!r} is not a number of slots", transient=True)
        return cls(slots=int(slots), used=int(used), state=told.get("state_string", ""))

    @property
    def is_closed(self) -> bool:
        return re.search(r"[aAcCdDEosSu]", self.state) is not None

    @property
    def idle(self) -> int:
        return 0 if self.is_closed else max(0, self.slots - self.used)


def shut_queues(hosts: Collection[Host]) -> dict[str, str]:
    """Say why queues start no job on any host."""
    states: dict[str, set[str]] = {}
    for host in hosts:
        for name, slots in host.queues.items():
            states.setdefault(name, set()).add(slots.state if slots.is_closed else "")
    return {
        name: next((words for letter, words in SHUT.items() if letter in state), "it is closed")
        for name, found in states.items()
        if "" not in found and (state := "".join(sorted(found)))
    }


def may_take(row: ET.Element, hosts: Collection[Host]) -> frozenset[str]:
    """Return the hosts of the queues that a waiting job asks for, which take jobs now."""
    asked = [one.text or "" for one in row.iter("hard_req_queue")] or ["*"]
    return frozenset(
        host.name
        for host in hosts
        for queue, slots in host.queues.items()
        if not slots.is_closed
        and any(fnmatch(f"{queue}@{host.name}", one if "@" in one else f"{one}@*") for one in asked)
    )


def idle_gpus(hosts: ET.Element, resource: str) -> int:
    """Sum up what is left of a resource on the hosts."""
    values = [
        float(value.text or 0)
        for value in hosts.iter("resourcevalue")
        if value.get("name") == resource
        and re.fullmatch(r"[0-9]{1,9}(\.[0-9]*)?", value.text or "")
    ]
    return int(sum(values))
