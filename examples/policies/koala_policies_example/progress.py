"""Wait-for-the-Last: whoever is ahead of the slowest component by more than the job allows is held
altogether until it is not. Coarser than synchronous queuing, and never late.
"""

from __future__ import annotations

from koala.core.model.progress_reports import Correction, ProgressQuestion


def wait_for_the_last(question: ProgressQuestion) -> tuple[Correction, ...]:
    """Asked at the end of each cycle in which all components have reported.

    A component has a weight (its share of the time, 1 is all) and can be given what is spare. The
    answer takes (below 0) and gives (above 0); what is not named stays as it is.
    """
    last_s = min(member.virtual_s for member in question.members)
    answer = []
    for member in question.members:
        is_ahead = member.virtual_s - last_s > question.asynchrony_s
        change = -member.weight if is_ahead else member.spare
        if change:
            answer.append(Correction(component=member.component, weight=change))
    return tuple(answer)
