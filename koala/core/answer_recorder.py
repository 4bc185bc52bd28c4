"""Record the answers of policies with their event, and give them again in a replay.

So a replay gives the same state, even if a policy has changed since. Answers are plain data, as the
journal stores them.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from itertools import repeat
from math import inf
from typing import Any, TypeAlias

from koala.core.model.grid import Assignment, Placement
from koala.core.model.progress_reports import Correction
from koala.core.model.values import JobId
from koala.core.policy_api import ClaimPlan, PartPlan, ResizePlan, ResizeShare, TicketPlan

Answer: TypeAlias = (
    Placement | ClaimPlan | TicketPlan | ResizePlan | tuple[Correction, ...] | str | None
)
"""None stands for Unplaceable: the reason is for people, and is computed again when they ask. A
string names the queue to visit, a discipline, or jobs in their order."""

_MISSING: Any = object()


class AnswerRecorder:
    """Records the answers of policies; in a replay it returns the recorded answers instead."""

    __slots__ = ("_replay", "answers")

    def __init__(self) -> None:
        self.answers: list[Any] = []
        self._replay: Iterator[Any] | None = None

    def begin(self, replay: list[Any] | None) -> None:
        """Begin an event; `replay` holds its recorded answers in a replay, else None."""
        self.answers = []
        self._replay = None if replay is None else _unpacked(replay)

    def ask(self, question: Callable[[], Answer]) -> Answer:
        """Ask a policy, or return the recorded answer."""
        if self._replay is not None:
            plain = next(self._replay, _MISSING)
            if plain is _MISSING:
                raise LookupError("an answer of a policy is missing")
            answer = _from_plain(plain)
        else:
            answer = question()
            plain = _to_plain(answer)
        if plain is None and self.answers and isinstance(self.answers[-1], int):
            # A run of Unplaceable is one number: long queues are scanned often.
            self.answers[-1] += 1
        else:
            self.answers.append(1 if plain is None else plain)
        return answer


def _unpacked(answers: list[Any]) -> Iterator[Any]:
    for answer in answers:
        if isinstance(answer, int):
            yield from repeat(None, answer)
        else:
            yield answer


def _to_plain(answer: Answer) -> list[Any] | str | None:
    match answer:
        case None:
            return None
        case str():
            return str(answer)
        case Placement():
            return ["placement", _rows(answer.assignments)]
        case tuple():
            return ["progress", [[item.component, item.weight] for item in answer]]
        case ResizePlan():
            return ["resizes", [[share.job, share.processors] for share in answer.shares]]
        case TicketPlan():
            parts = [
                [p.component, p.site, p.tickets, p.open, p.gives_back, p.begin_s]
                for p in answer.parts
            ]
            again_s = answer.again_s if answer.again_s < inf else None
            return ["tickets", parts, answer.hold_s, again_s]
        case ClaimPlan():
            return [
                "plan",
                answer.fraction,
                list(answer.claims),
                _rows(answer.moves),
                list(answer.preempting),
                list(answer.victims),
                _rows(answer.forced),
            ]


def _from_plain(plain: list[Any] | str | None) -> Answer:
    if plain is None:
        return None
    if isinstance(plain, str):
        return plain
    if plain[0] == "placement":
        return Placement(assignments=_assignments(plain[1]))
    if plain[0] == "progress":
        return tuple(Correction(component=index, weight=weight) for index, weight in plain[1])
    if plain[0] == "resizes":
        shares = [ResizeShare(job=JobId(job), processors=n) for job, n in plain[1]]
        return ResizePlan(shares=tuple(shares))
    if plain[0] == "tickets":
        parts = tuple(
            PartPlan(
                component=index, site=site, tickets=tickets, open=open_, gives_back=back, begin_s=at
            )
            for index, site, tickets, open_, back, at in plain[1]
        )
        return TicketPlan(
            parts=parts, hold_s=plain[2], again_s=inf if plain[3] is None else plain[3]
        )
    _, fraction, claims, moves, preempting, victims, forced = plain
    return ClaimPlan(
        fraction=fraction,
        claims=tuple(claims),
        moves=_assignments(moves),
        preempting=tuple(preempting),
        victims=tuple(victims),
        forced=_assignments(forced),
    )


def _rows(assignments: tuple[Assignment, ...]) -> list[list[Any]]:
    return [
        [a.component, a.site, a.source, a.transfer_s, a.mips, a.booked_bps]
        + ([a.processors] if a.processors else [])
        for a in assignments
    ]


def _assignments(rows: list[list[Any]]) -> tuple[Assignment, ...]:
    return tuple(
        Assignment(
            component=component,
            site=site,
            source=source,
            transfer_s=transfer_s,
            mips=mips,
            booked_bps=booked_bps,
            processors=sum(of_flexible),
        )
        for component, site, source, transfer_s, mips, booked_bps, *of_flexible in rows
    )
