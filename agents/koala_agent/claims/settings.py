"""Settings of the claim table: leases of starters and limits of the site. Durations in seconds."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class LeaseTimes:
    """Leases of a starter before and after the barrier, and the time from TERM to KILL.

    The daemon sends them with Welcome.
    """

    hold_lease_s: float = 60.0
    run_lease_s: float = 600.0
    kill_s: float = 5.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Limits:
    """Limits that the site sets.

    - A claim not checked in within `grace_s` of the ask is refused.
    - Claims beyond `processors_max` or `hold_max_s` are refused at once; so are those of accounts
      other than `users`, set by the configuration's `users_key`. None: all accounts are accepted.
    - At most `tickets_max` claims wait in the local queue without a grace time, and those that came
      up from there hold at most `held_max` processors before the barrier. None: no limit.
    - Claims are booked at most `booking_ahead_s` before their start. 0: none are.
    - Outputs are brought back within `collect_max_s`.
    - Jobs that should be over are withdrawn after `linger_s`.
    - Reports not acknowledged and orders not confirmed are repeated after `again_s`.
    """

    grace_s: float = 5.0
    processors_max: int | None = None
    hold_max_s: float = float("inf")
    tickets_max: int | None = None
    held_max: int | None = None
    booking_ahead_s: float = float("inf")
    users: tuple[str, ...] | None = None
    users_key: str = "accounts.user"
    collect_max_s: float = 300.0
    linger_s: float = 30.0
    again_s: float = 5.0
