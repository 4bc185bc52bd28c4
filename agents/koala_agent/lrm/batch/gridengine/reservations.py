"""Advance reservations: `qrsub`, `qrstat`, `qrdel`."""

from __future__ import annotations

import re
import xml.etree.ElementTree as ET
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass, replace
from datetime import datetime, timedelta

from koala.errors import LocalManagerError
from koala_agent.lrm.batch.gridengine.jobs import instant, slots_of, tree_of
from koala_agent.lrm.dialect import PREFIX, Booking, check_status, count_of, is_count
from koala_agent.lrm.local_manager import RequestRefusedError
from koala_agent.transport.interface import Answer, Command

CLOCK = "%Y-%m-%dT%H:%M:%S"
LIST_BOOKINGS = f"""\
now=$(date +%s) && rows=$(qrstat -u '*') || exit
echo "$now $(date -d "@$now" '+{CLOCK}') $(date -u -d "@$now" '+{CLOCK}')"
ids=$(echo "$rows" | sed -n 's/^ *\\([0-9][0-9]*\\) .*/\\1/p' | paste -s -d , -)
if [ -n "$ids" ]; then TZ=UTC0 qrstat -ar "$ids" -xml; else echo '<none/>'; fi
exit 0
"""

BOOKINGS = Command(argv=("/bin/sh", "-c", LIST_BOOKINGS))
"""The time now, since the epoch, on the clock of the cell and in UTC, then all advance reservations
with their slots, which a listing lacks, in UTC: no hour is twice there. One may have ended
meanwhile."""
BOOK = """\
export TZ=UTC0
at=$(date -d "@$1" +%Y%m%d%H%M.%S) || exit
shift
exec qrsub -a "$at" "$@"
"""
"""$1 is the begin in seconds since the epoch, which `qrsub` takes by the clock; then options."""
AWAY = re.compile(r"(?i)unable to (?:contact|send|connect)|can't connect|commlib error|got no")


def read_booked(answer: Answer) -> str:
    found = re.search(r"advance reservation ([0-9]{1,15}) has been granted", answer.out)
    if found is not None:
        return found[1]
    message = f"qrsub: {answer.complaint() or answer.out.strip()}"
    if answer.status == 0 or AWAY.search(answer.err):
        raise LocalManagerError(message, transient=True)
    raise RequestRefusedError(message)


@dataclass(frozen=True, slots=True, kw_only=True)
class Reservation:
    """Advance reservation, with the slots that it has of each queue at a host. It begins at `start`
    in UTC, which the clock of the cell is ahead of."""

    booking: Booking
    owner: str
    start: datetime
    ahead: timedelta
    slots: dict[str, int]

    def left(
        self, running: Iterable[ET.Element], ours: Collection[str], used: Mapping[str, int]
    ) -> Booking:
        """Return it with what it has of our queues and no job uses. No listing tells which jobs are
        in it: an agent's by its name, else those of its owner that began there since its start.
        That listing is a little older than what is `used` of each queue at a host."""
        name = self.booking.name
        granted = sum(n for place, n in self.slots.items() if place.partition("@")[0] in ours)
        inside = sum(
            slots_of(row)
            for row in running
            if row.findtext("JB_owner") == self.owner
            and row.findtext("queue_name") in self.slots
            and (not name.startswith(f"{PREFIX}-") or row.findtext("JB_name") == name)
            and instant(row.findtext("JAT_start_time") or "") - self.start >= self.ahead
        )
        inside = min(inside, sum(used.get(place, inside) for place in self.slots))
        return replace(self.booking, processors=max(0, granted - inside), size=granted)


def read_bookings(answer: Answer) -> list[Reservation]:
    """Read the advance reservations that have not ended. In the states W and E (warning, error) a
    host or queue of it is not available."""
    check_status(answer, "qrstat")
    clocks, _, listing = answer.out.partition("\n")
    epoch, clock, utc = (*clocks.split(" "), "", "")[:3]
    if not is_count(epoch):
        raise LocalManagerError(f"qrstat: no time in {clocks[:80]!r}", transient=True)
    now = instant(utc)

    def since_epoch(text: str) -> float:
        return float(epoch) + (instant(text) - now).total_seconds()

    found = []
    for row in tree_of(replace(answer, out=listing), "qrstat").iter("ar_summary"):
        number, state = row.findtext("id") or "", row.findtext("state") or ""
        if not is_count(number) or state in ("d", "x"):
            continue
        start, end = row.findtext("start_time") or "", row.findtext("end_time") or ""
        is_bad = state in ("W", "E")
        booking = Booking(
            number=number,
            name=row.findtext("name") or "",
            trouble=f"state {state}: a host or queue of it is not available" if is_bad else "",
            begins_at=since_epoch(start),
            ends_at=since_epoch(end),
        )
        slots = {
            granted.get("queue_instance") or "": count_of(granted.get("slots") or "")
            for granted in row.iter("granted_slots")
        }
        owner = row.findtext("owner") or ""
        found.append(
            Reservation(
                booking=booking,
                owner=owner,
                start=instant(start),
                ahead=instant(clock) - now,
                slots=slots,
            )
        )
    return found


def read_unbooked(answer: Answer) -> None:
    if answer.status != 0 and "does not exist" not in answer.out + answer.err:
        raise LocalManagerError(f"qrdel: {answer.complaint()}", transient=True)
