"""How a broken promise is told, and what claims are named after."""

from __future__ import annotations

from koala.core.model.values import JobId


class BreachError(AssertionError):
    """A promise is broken."""


def require(fact: bool, promise: int, text: str) -> None:
    """The fact that a promise rests on."""
    if not fact:
        message = f"promise {promise}: {text}"
        raise BreachError(message)


def parts(claim: str) -> tuple[JobId, int, int]:
    """Job, attempt and component of a claim."""
    job, attempt, component, _ = claim.rsplit("/", 3)
    return JobId(job), int(attempt), int(component)
