"""Error of a broken promise, and the parts of a claim's name."""

from __future__ import annotations

from koala.core.model.values import JobId


class BreachError(AssertionError):
    """A promise is broken."""


def require(fact: bool, promise: int, text: str) -> None:
    """Require a fact on which a promise rests."""
    if not fact:
        message = f"promise {promise}: {text}"
        raise BreachError(message)


def parts(claim: str) -> tuple[JobId, int, int]:
    """Split the name of a claim into job, attempt and component."""
    job, attempt, component, _ = claim.rsplit("/", 3)
    return JobId(job), int(attempt), int(component)
