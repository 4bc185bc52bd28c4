"""Settings of the local manager for a real batch system."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path


@dataclass(frozen=True, slots=True, kw_only=True)
class BatchSettings:
    """Settings of a batch manager; times in seconds.

    - `processors`: the most that claims and figures may count.
    - `poll_s`: the shortest pause between two listings; `figures_s`: the longest, and the age of
      figures while nothing happens; two thirds of that while there are claims.
    - `waits_s`: between two forecasts of the starts of waiting claims; `outlook_s`: the same while
      only others wait.
    - `missing_s`: a job without listing and record counts as ended after this time, because the
      record of an end comes late; `unrecorded_s`: the same where records cannot be read.
    - `limited_s`: a user who was refused more counts as limited for this time.
    - `account`: jobs of other users are foreign, whatever their names; empty: the listing has no
      others.
    - `accounts`: accounts that claims may run as, besides the agent's own; a failing one is tried
      again after `trouble_s`.
    - `is_gate_probed`: the gate is probed by itself, for the first time after `probe_after_s`.
    - `books`: claims with a known start are booked, where the batch system can.
    - `make_room`: called when the job table finds the disk full.
    """

    processors: int
    state_directory: Path
    scope: str
    poll_s: float = 1.0
    figures_s: float = 30.0
    waits_s: float = 30.0
    outlook_s: float = 300.0
    missing_s: float = 10.0
    unrecorded_s: float = 120.0
    limited_s: float = 60.0
    account: str = ""
    accounts: tuple[str, ...] = ()
    trouble_s: float = 10.0
    is_gate_probed: bool = False
    probe_after_s: float = 60.0
    books: bool = True
    make_room: Callable[[], bool] = lambda: False
