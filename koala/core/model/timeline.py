"""Arithmetic of a job's timeline: FTT, JST and JCT (KOALA 3.2, figure 1), and PT for jobs with a
deadline (Deadlines 2.2).
"""

from __future__ import annotations

from koala.core.model.values import Instant, Seconds

AT_DEADLINE_S: Seconds = 1e-9
"""A try this close to the deadline counts as the try at the deadline."""


def first_claim_at(
    placed_at: Instant, transfer_s: Seconds, *, fraction: float, hold_max_s: Seconds
) -> Instant:
    """Compute JCT0 = JPT + L * FTT, but no earlier than `hold_max_s` before the JST, so that a
    claim holds no longer than allowed.
    """
    start_at = placed_at + transfer_s
    return min(start_at, max(placed_at + fraction * transfer_s, start_at - hold_max_s))


def next_claim_at(
    claim_at: Instant, start_at: Instant, *, fraction: float, step_min_s: Seconds
) -> Instant:
    """Compute JCT(n+1) = JCT(n) + L * (JST - JCT(n)). The series only approaches the JST; a step
    below the minimum goes to the JST itself.
    """
    step_s = fraction * (start_at - claim_at)
    return claim_at + step_s if step_s >= step_min_s else start_at


def considered_at(submitted_at: Instant, deadline_at: Instant, *, wait_s: Seconds) -> Instant:
    """Compute T = max(S, D - X). Wait-X ignores a job until T; with an infinite X, T is the
    submission (Deadlines 2.2).
    """
    return max(submitted_at, deadline_at - wait_s)


def next_try_at(
    try_at: Instant, deadline_at: Instant, *, fraction: float, step_min_s: Seconds = 0.0
) -> Instant:
    """Compute PT(m+1) = PT(m) + Lp * (D - PT(m)); PT(0) follows from T in the same way (Deadlines
    2.2). The series only approaches D; a try very close to it, or a step below the minimum, goes to
    D itself.
    """
    next_at = try_at + fraction * (deadline_at - try_at)
    is_near = deadline_at - next_at <= AT_DEADLINE_S or next_at - try_at < step_min_s
    return deadline_at if is_near else next_at


def tries(
    considered: Instant,
    deadline_at: Instant,
    *,
    fraction: float,
    tries_max: int,
    step_min_s: Seconds = 0.0,
    ends_at_deadline: bool = False,
) -> tuple[Instant, ...]:
    """Compute PT(0) to PT(Mp) of a job that is considered from T on, up to the first at D. With
    `ends_at_deadline` the last one is always at D (Deadlines 2.2).
    """
    instants: list[Instant] = []
    at = considered
    while len(instants) <= tries_max:
        at = next_try_at(at, deadline_at, fraction=fraction, step_min_s=step_min_s)
        instants.append(at)
        if at >= deadline_at:
            return tuple(instants)
    return (*instants, deadline_at) if ends_at_deadline else tuple(instants)


def lowered_fraction(fraction: float, *, step: float, fraction_min: float) -> float:
    """Compute L after a job went back to its placement queue: one step less, but not below the
    minimum."""
    return max(fraction_min, fraction - step)


def lead_s(
    rtt_s: Seconds, *, round_trips: int, arms: int, lead_min_s: Seconds, lead_max_s: Seconds
) -> Seconds:
    """Return the lead of a T over its Arm: so many of the slowest round trips, doubled with each
    failed arming.
    """
    return min(lead_max_s, max(lead_min_s, round_trips * rtt_s) * 2.0**arms)


def chunk(processors: list[int], component: int, size_bytes: int) -> tuple[int, int]:
    """Return the offset and size of a component's chunk of the input file, in proportion to
    processors, in the job's order.
    """
    total = sum(processors)
    before = sum(processors[:component])
    begin = size_bytes * before // total
    end = size_bytes * (before + processors[component]) // total
    return begin, end - begin
