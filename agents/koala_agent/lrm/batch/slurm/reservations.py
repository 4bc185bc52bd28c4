"""Reservations: those of bookings, and those of others."""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable, Iterator

from koala.errors import LocalManagerError
from koala_agent.lrm.batch.slurm.partitions import part_of, words_of
from koala_agent.lrm.dialect import Booking, check_status, is_count
from koala_agent.lrm.local_manager import RequestRefusedError
from koala_agent.starter.batch_rules import expand_names
from koala_agent.transport.interface import Answer, Command

RESERVATIONS = Command(
    argv=("/usr/bin/env", "SLURM_TIME_FORMAT=%s", "scontrol", "-o", "show", "reservation"),
    keep_s=60.0,
)
"""With instants in seconds since the epoch."""
LIST_BOOKINGS = """\
all=$(SLURM_TIME_FORMAT=%s scontrol -o show reservation) || exit
echo "$all"
case $all in *Name=koala-*) sinfo -h -a -N -t down,drain,fail -o "LOST %N";; esac
exit 0
"""
BOOKINGS = Command(argv=("/bin/sh", "-c", LIST_BOOKINGS))
"""The same of now; then, where some are ours, the machines that start no jobs."""
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
    """Parse all reservations. One of which a machine starts no jobs is in trouble."""
    check_status(answer, "scontrol")
    lost = set(re.findall(r"^LOST (\S+)", answer.out, re.MULTILINE))
    found = []
    for line in re.findall(r"^ReservationName=.*", answer.out, re.MULTILINE):
        words = dict(words_of(line.partition(" NodeName=")[0]))
        gone = [name for name in expand_names(words.get("Nodes", "")) if name in lost]
        trouble = f"its machine {gone[0]} is down or drained" if gone else ""
        name, begin = words["ReservationName"], words.get("StartTime", "")
        begins_at = float(begin) if is_count(begin) else 0.0
        found.append(Booking(number=name, name=name, trouble=trouble, begins_at=begins_at))
    return found


def read_unbooked(answer: Answer) -> None:
    if answer.status != 0 and "reservation is invalid" not in answer.err:
        check_status(answer, "scontrol")


def open_shared_nodes(lines: Iterable[str], reservations: str) -> Iterator[str]:
    """Return the rows of `sinfo` without the word for a node of which only some cores are reserved:
    the others take any job."""
    shared = set(re.findall(r"\bNodeName=(\S+) CoreIDs=", reservations))
    word = "+reserved"
    for line in lines:
        yield line.replace(word, " " * len(word)) if line.split(" ", 1)[0] in shared else line


def bookings_of(text: str, nodes: Collection[str]) -> tuple[Booking, ...]:
    """Parse `scontrol show reservation`: what is reserved of these nodes, but for maintenance. A
    node that is reserved as a whole says so itself from then on, and is none of them."""
    found = []
    for line in re.findall(r"^ReservationName=.*", text, re.MULTILINE):
        words = dict(words_of(line))
        names = expand_names(words["Nodes"]) if words.get("Nodes", "(null)") != "(null)" else []
        here = sum(name in nodes for name in names)
        times = [words.get(key, "") for key in ("StartTime", "EndTime")]
        if here and "MAINT" not in words.get("Flags", "").split(",") and all(map(is_count, times)):
            begins_at, ends_at = map(float, times)
            booking = Booking(
                number=words["ReservationName"],
                name=words["ReservationName"],
                processors=int(part_of(words.get("TRES", ""), "cpu") or 0) * here // len(names),
                begins_at=begins_at,
                ends_at=ends_at,
            )
            found.append(booking)
    return tuple(found)
