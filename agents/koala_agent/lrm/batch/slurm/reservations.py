"""Reservations: those of bookings, and those of others."""

from __future__ import annotations

import math
import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import replace

from koala.errors import LocalManagerError
from koala_agent.lrm.batch.slurm.partitions import part_of, words_of
from koala_agent.lrm.dialect import PREFIX, Booking, check_status, is_count
from koala_agent.lrm.local_manager import EndCause, RequestRefusedError
from koala_agent.starter.batch_rules import expand_names
from koala_agent.transport.interface import Answer, Command

RESERVATIONS = Command(
    argv=("/usr/bin/env", "SLURM_TIME_FORMAT=%s", "scontrol", "-o", "show", "reservation"),
    keep_s=10.0,
)
"""With instants in seconds since the epoch. Figures and outlook that are due together ask once."""
LIST_BOOKINGS = """\
all=$(SLURM_TIME_FORMAT=%s scontrol -o show reservation) || exit
echo "$all"
case $all in *Name=koala-*) sinfo -h -a -N -t down,drain,fail -o "LOST %N";; esac
case $all in *MAINT*|*OVERLAP*) sinfo -h -a -N -o "HAS %N %c";; esac
exit 0
"""
BOOKINGS = Command(argv=("/bin/sh", "-c", LIST_BOOKINGS))
"""The same of now; then, where some are ours, the machines that start no jobs, and, where some may
share machines, the processors of each."""
AWAY = re.compile(r"(?i)unable to contact|temporarily|timed out|communication|connection|busy")
"""Messages of a controller that does not answer, or takes no more jobs: a retry may work, and a
submission may have arrived."""


def read_booked(answer: Answer) -> str:
    found = re.search(r"Reservation created: (\S+)", answer.out)
    if found is not None:
        return found[1]
    message = f"scontrol create reservation: {answer.complaints()}"
    if answer.status == 0 or AWAY.search(answer.err.replace("nodes are busy", "")):
        raise LocalManagerError(message, transient=True)
    raise RequestRefusedError(message)


def read_bookings(answer: Answer) -> list[Booking]:
    """Parse all reservations. One of ours of which a machine starts no jobs is in trouble, one of
    others if all do not because another one has them."""
    check_status(answer, "scontrol")
    lost = set(re.findall(r"^LOST (\S+)", answer.out, re.MULTILINE))
    told = re.findall(r"^HAS (\S+) ([0-9]{1,9})$", answer.out, re.MULTILINE)
    has = {name: int(count) for name, count in told}
    every, found = list(_read(answer.out)), []
    for words in every:
        is_ours = words["ReservationName"].startswith(f"{PREFIX}-")
        gone = [name for name in _nodes(words) if name in lost and is_ours]
        trouble = f"its machine {gone[0]} is down or drained" if gone else ""
        booking = _booking(words, size := _size(words), size, trouble)
        if not trouble and (why := _trouble(words, _taken(words, every, has))):
            booking = replace(booking, trouble=why, cause=EndCause.CANCELLED_BY_SITE)
        found.append(booking)
    return found


def _booking(words: Mapping[str, str], processors: int, size: int, trouble: str = "") -> Booking:
    name, begin, end = (words.get(key, "") for key in ("ReservationName", "StartTime", "EndTime"))
    return Booking(
        number=name,
        name=name,
        trouble=trouble,
        processors=processors,
        size=size,
        begins_at=float(begin) if is_count(begin) else 0.0,
        ends_at=float(end) if is_count(end) else math.inf,
        is_open="FLEX" in _flags(words),
    )


def _taken(
    words: Mapping[str, str], every: Iterable[Mapping[str, str]], has: Mapping[str, int]
) -> dict[str, str]:
    """Return the nodes with so many processors at which Slurm starts no job of a reservation that
    may not overlap: another one has all of each at the same time. Before that begins, short jobs
    start in one of others. The values are the names of those."""
    if _may_overlap(words):
        return {}
    own, mine, taken = set(_nodes(words)), _booking(words, 0, 0), {}
    for other in filter(_may_overlap, every):
        names, its = _nodes(other), _booking(other, 0, 0)
        is_now = other.get("State") == "ACTIVE" or mine.name.startswith(f"{PREFIX}-")
        is_whole = _size(other) >= sum(has.get(name, _size(other) + 1) for name in names)
        is_at_once = mine.begins_at < its.ends_at and its.begins_at < mine.ends_at
        if is_now and is_whole and is_at_once:
            taken.update(dict.fromkeys(own.intersection(names), its.name))
    return taken


def _may_overlap(words: Mapping[str, str]) -> bool:
    return bool({"MAINT", "OVERLAP"}.intersection(_flags(words)))


def _trouble(words: Mapping[str, str], taken: Mapping[str, str]) -> str:
    is_ours = words["ReservationName"].startswith(f"{PREFIX}-")
    is_shut = bool(taken) and (is_ours or len(taken) == len(_nodes(words)))
    return f"reservation {min(taken.values())} has its machines, too" if is_shut else ""


def _flags(words: Mapping[str, str]) -> list[str]:
    return words.get("Flags", "").split(",")


def read_unbooked(answer: Answer) -> None:
    if answer.status != 0 and "reservation is invalid" not in answer.err:
        check_status(answer, "scontrol")


def open_reserved_nodes(lines: Iterable[str], reservations: str) -> Iterator[str]:
    """Return the rows of `sinfo` without the word for a node that is reserved, or some cores of it,
    where the reservation itself tells what it keeps: all else takes any job."""
    known = {
        name
        for words in _read(reservations)
        if "MAINT" not in _flags(words)
        for name in _nodes(words)
    }
    word = "+reserved"
    for line in lines:
        yield line.replace(word, " " * len(word)) if line.split(" ", 1)[0] in known else line


def bookings_of(
    text: str,
    nodes: Mapping[str, tuple[int, int]],
    used: Mapping[str, int],
    *,
    is_for_others: bool = False,
) -> tuple[Booking, ...]:
    """Parse `scontrol show reservation`: what is reserved of these nodes, which have so many idle
    processors and others in use, and not `used` by jobs in it, whose listing is a little older. One
    for maintenance keeps nothing `is_for_others`, as its nodes say so themselves."""
    found = []
    rest = {name: idle for name, (idle, _) in nodes.items()}  # reservations may overlap
    every = list(_read(text))
    for words in every:
        names = _nodes(words)
        taken = _taken(words, every, {name: sum(has) for name, has in nodes.items()})
        here = [name for name in names if name in nodes and name not in taken]
        if is_for_others and (not here or "MAINT" in _flags(words)):
            continue
        size = _size(words) * len(here) // max(1, len(names))
        in_use = min(used.get(words["ReservationName"], 0), sum(nodes[name][1] for name in here))
        left = max(0, size - in_use)
        if words.get("State") == "ACTIVE":
            left = min(left, sum(rest[name] for name in here))
            more = left if is_for_others else 0
            for name in here:
                kept = min(more, rest[name])
                rest[name], more = rest[name] - kept, more - kept
        found.append(_booking(words, left, size, _trouble(words, taken)))
    return tuple(found)


def _read(text: str) -> Iterator[dict[str, str]]:
    for line in re.findall(r"^ReservationName=.*", text, re.MULTILINE):
        yield dict(words_of(line))


def _size(words: Mapping[str, str]) -> int:
    return int(part_of(words.get("TRES", ""), "cpu") or 0)


def _nodes(words: Mapping[str, str]) -> list[str]:
    text = words.get("Nodes", "(null)")
    return [] if text == "(null)" else expand_names(text)
