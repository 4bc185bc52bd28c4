"""The clock of a daemon across restarts: what was measured before one is right after it.

While claims live, a daemon that starts again goes on with the time from before the restart: claims
are charged, and timers run, by the differences of its instants. The time since boot measures how
long it was down, so a wall clock that was set meanwhile changes nothing. It is read again

- at a start without claims, which is how a wall clock that was wrong is adopted,
- after a reboot, when nothing else tells how long the computer was down.

A file in the state directory has the boot and the daemon's time at that boot.
"""

from __future__ import annotations

import math
from contextlib import suppress
from pathlib import Path
from typing import Protocol

from koala.common.identity.private_files import write_private
from koala.common.runtime.clock import Clock, boot_id, unix_now
from koala.common.runtime.structured_log import get_logger
from koala.core.model.values import Instant, Seconds
from koala.errors import KoalaError

FILE = "clock"
WARN_S: Seconds = 60.0
"""Least difference from the wall clock that is logged."""
log = get_logger()


class MakeClock(Protocol):
    """Begin the clock of a run. Its time does not begin before `not_before`."""

    def __call__(self, not_before: Instant, *, has_claims: bool) -> Clock:
        """Return the clock; `has_claims` when claims from before the restart are in the ledger."""


def wall_clock(not_before: Instant, *, has_claims: bool) -> Clock:
    """Begin a clock by the wall clock, as the first run does."""
    return Clock(not_before)


def begin_clock(state_dir: Path, not_before: Instant, *, has_claims: bool) -> Clock:
    """Begin the clock of a run, and keep its base in the state directory for the next one."""
    path = state_dir / FILE
    kept = _read(path)
    clock = Clock(not_before, base=kept if has_claims else None)
    ahead_s = unix_now() - clock.now()
    if abs(ahead_s) >= WARN_S:
        log.warning("clock.differs", wall_ahead_s=round(ahead_s, 1), has_claims=has_claims)
    if clock.base != kept:
        try:
            write_private(path, f"{boot_id()} {clock.base!r}\n".encode("ascii"))
        except (KoalaError, OSError) as error:
            log.warning("clock.not_kept", reason=str(error))
    return clock


def _read(path: Path) -> float | None:
    """Return the base that an earlier run on this boot kept; None if there is none."""
    with suppress(OSError, ValueError):
        boot, text = path.read_text(encoding="ascii").split()
        base = float(text)
        if boot == boot_id() and math.isfinite(base):
            return base
    return None
