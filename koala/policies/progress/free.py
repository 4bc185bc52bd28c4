"""No progress control: every component runs as fast as its site lets it."""

from __future__ import annotations

from koala.core.model.progress_reports import Correction, ProgressQuestion


def free(_question: ProgressQuestion) -> tuple[Correction, ...]:
    """Correct nothing."""
    return ()
