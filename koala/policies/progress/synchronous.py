"""Synchronous queuing: clocks, weights, and the controller that keeps the components of a job
together (SQ 4).

Simulator and daemon run the same controller, which is independent of machines. Sometimes the
paper's corrective action is impossible: a dummy has too little weight left, or equation (7) would
turn a slow-down into its opposite. Then the whole job is corrected around its pivotal point instead
of real time. That is the "global corrective action" that the paper asks for and does not describe
(SQ 4.3.3).
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from math import fsum

from koala.core.model.progress_reports import Correction, MemberProgress, ProgressQuestion
from koala.core.model.values import Seconds

WEIGHT_LEAST = 0.002
"""No correction takes a component below this part of the weight it was admitted with."""

ROUNDING = 1e-12
"""A weight below this is a rounding error."""
TIE_S = 1e-9
"""Tolerance of ties: two components are equally far from their mean despite rounding; then the
slowest is sped up."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Clocks:
    """RT, VT and pRT of a component (SQ 4.1)."""

    real_s: Seconds = 0.0
    virtual_s: Seconds = 0.0
    previous_s: Seconds = 0.0

    def after(self, cycle_s: Seconds, *, agreed: float, actual: float) -> Clocks:
        """Clocks after a schedule cycle in which it got `actual` of the `agreed` quanta."""
        real_s = self.real_s + cycle_s  # (3)
        virtual_s = self.virtual_s + (real_s - self.previous_s) * actual / agreed  # (4)
        return Clocks(real_s=real_s, virtual_s=virtual_s, previous_s=real_s)  # (5)


def normalized_weight(
    demand: float, slowdown: float, relative: float, *, relative_sum: float, partition: float
) -> float:
    """Weight of a subtask with the `relative` weight in a machine's Grid QoS queue (6). The task
    demands `demand` percent of the standard machine; the queue has `partition` percent of one that
    is `slowdown` times slower. More than 1 is infeasible.
    """
    return demand * slowdown * relative / relative_sum / partition


def slow_down_factor(
    virtual_s: Seconds, real_s: Seconds, weight: float, *, quanta: float = 100.0
) -> float:
    """Weight that a subtask gives up (7); negative if it is behind and needs weight."""
    return (virtual_s - real_s) * weight / quanta


def pivotal_point(members: tuple[MemberProgress, ...]) -> Seconds:
    """Mean of the virtual times (SQ 4.3.1)."""
    return fsum(member.virtual_s for member in members) / len(members)


def is_within_windows(
    virtual_s: Sequence[Seconds], real_s: Seconds, *, asynchrony_s: Seconds, deviation_s: Seconds
) -> bool:
    """Return True if nothing is to be corrected: the pivotal point is near real time, and the
    fastest near the slowest."""
    if max(virtual_s) - min(virtual_s) > asynchrony_s:
        return False
    return abs(fsum(virtual_s) / len(virtual_s) - real_s) <= deviation_s


def synchronous(question: ProgressQuestion) -> tuple[Correction, ...]:
    """Compute the corrective action (SQ figure 5), with the overall deviation window as intended:
    RT - OV <= pp <= RT + OV."""
    members = question.members
    if not members:
        return ()
    pivot_s = pivotal_point(members)
    if abs(pivot_s - question.real_s) > question.deviation_s:
        return _synchronize(question, members, pivot_s)
    fastest = max(members, key=lambda member: member.virtual_s)
    slowest = min(members, key=lambda member: member.virtual_s)
    if fastest.virtual_s - slowest.virtual_s <= question.asynchrony_s:
        return ()
    if fastest.virtual_s - pivot_s > pivot_s - slowest.virtual_s + TIE_S:
        if fastest.virtual_s > question.real_s:
            return _synchronize(question, (fastest,), pivot_s)
    elif slowest.virtual_s < question.real_s:
        return _synchronize(question, (slowest,), pivot_s)
    return tuple(_corrections(question, members, pivot_s))


def synchronous_as_printed(question: ProgressQuestion) -> tuple[Correction, ...]:
    """Compute the corrective action of figure 5 as printed: pp <= RT - OV and pp >= RT + OV never
    hold together, so all components are corrected in every cycle."""
    members = question.members
    return _synchronize(question, members, pivotal_point(members)) if members else ()


def _synchronize(
    question: ProgressQuestion, chosen: tuple[MemberProgress, ...], pivot_s: Seconds
) -> tuple[Correction, ...]:
    """Correct the chosen components towards real time. If the machine of one cannot give it the
    weight it needs, correct all around the pivotal point."""
    quanta = question.quanta
    for member in chosen:
        needed = -slow_down_factor(member.virtual_s, question.real_s, member.weight, quanta=quanta)
        if needed > member.spare:
            return tuple(_corrections(question, question.members, pivot_s))
    return tuple(_corrections(question, chosen, question.real_s))


def _corrections(
    question: ProgressQuestion, members: tuple[MemberProgress, ...], towards_s: Seconds
) -> Iterator[Correction]:
    """Compute feasible corrections: a weight has a floor, and a dummy gives only what it has."""
    for member in members:
        factor = slow_down_factor(
            member.virtual_s, towards_s, member.weight, quanta=question.quanta
        )
        most = max(0.0, member.weight - WEIGHT_LEAST * member.admitted)
        change = -min(factor, most) if factor > 0 else min(-factor, member.spare)
        if abs(change) > ROUNDING:
            yield Correction(component=member.component, weight=change)
