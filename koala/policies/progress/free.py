"""No progress control: every component runs as fast as its site lets it."""

from __future__ import annotations

from koala.core.model.progress_reports import Correction, ProgressQuestion


def free(_question: ProgressQuestion) -> tuple[Correction, ...]:
    """Correct nothing."""
    return ()


def restored(question: ProgressQuestion) -> tuple[Correction, ...]:
    """Give back all weight that another policy held back, so that every component runs freely."""
    return tuple(
        Correction(component=member.component, weight=member.spare)
        for member in question.members
        if member.spare
    )
