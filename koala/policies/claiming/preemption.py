"""Preemption of low-priority jobs for a high-priority one (KOALA 3.3)."""

from __future__ import annotations

from koala.core.model.grid import GridView
from koala.core.model.values import JobId, Priority
from koala.core.policy_api import ClaimQuestion, PendingPart, Victim


def choose_victims(
    question: ClaimQuestion, stuck: tuple[PendingPart, ...], view: GridView
) -> tuple[tuple[int, ...], tuple[JobId, ...]]:
    """Choose the components that preemption makes startable, and the victims: at each component's
    execution site, in descending order of their JST, no more than needed.

    With `preempt = complete` no job is preempted unless all components can then be claimed. With
    `component`, the paper's rule, each component is considered alone.
    """
    if question.priority is not Priority.HIGH or question.preempt == "none" or not stuck:
        return (), ()
    served: list[int] = []
    victims: list[JobId] = []
    for part in stuck:
        chosen = _enough(part, question, victims, view)
        if chosen is None:
            continue
        for victim in chosen:
            victims.append(victim.job)
            for site, processors in victim.held:
                view.give_back(site, processors, victim.gpus_at(site))
        assert part.site is not None
        view.take(part.site, part.processors, part.gpus)
        served.append(part.component)
    if question.preempt == "complete" and len(served) < len(stuck):
        return (), ()
    return tuple(served), tuple(victims)


def _enough(
    part: PendingPart, question: ClaimQuestion, taken: list[JobId], view: GridView
) -> list[Victim] | None:
    """Take victims in order until they free enough processors and GPUs for one part; None if they
    do not suffice.
    """
    if part.site is None or part.site not in question.preemptible:
        return None
    lacking = part.processors - view.idle_at(part.site)
    gpus_lacking = part.gpus - view.gpus_at(part.site)
    chosen: list[Victim] = []
    for victim in question.victims:
        if lacking <= 0 and gpus_lacking <= 0:
            break
        here, gpus = dict(victim.held).get(part.site, 0), victim.gpus_at(part.site)
        if victim.job not in taken and ((here and lacking > 0) or (gpus and gpus_lacking > 0)):
            chosen.append(victim)
            lacking -= here
            gpus_lacking -= gpus
    return chosen if lacking <= 0 and gpus_lacking <= 0 else None
