"""Jobs that must have ended before another one may be placed (`after` in a description)."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum

from koala.core.model.values import JobId


class Ended(StrEnum):
    """End that a job asks of a predecessor: a good one, or any."""

    OK = "ok"
    ANY = "any"


@dataclass(frozen=True, slots=True, kw_only=True)
class Predecessor:
    """A job that must have ended, well or anyhow, before another is placed."""

    job: JobId
    ended: Ended = Ended.OK

    def describe(self) -> str:
        """Describe the awaited end."""
        return f"{self.job} to end well" if self.ended is Ended.OK else f"{self.job} to end"


def unmet_dependency(before: JobId, phase: str) -> str:
    """Explain that a job cannot start, because a predecessor ended in this phase."""
    how = "was cancelled" if phase == "Cancelled" else phase.lower()
    return f"because {before} {how}: it starts only after {before} has ended well"
