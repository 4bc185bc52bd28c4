"""Objects of the state as earlier releases saved them, converted to those of today.

Saved states and archived jobs are read for ever. A class whose fields changed has another tag since
(`koala.core.snapshot.TAGS`); the old tag is converted here.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeAlias

from koala.core.model.claim import Armed, Asked, Claim, Grant, Granted, Passed, Released, Stopped

Old: TypeAlias = dict[str, Any]
"""Fields of an old object by name; empty ones are left out."""


def _fill_claim(claim: Claim, old: Old) -> None:
    """Cores 1 and 2: the phase was a word, and its data were optional fields of the claim."""
    granted_at, passed_at = old.pop("granted_at", None), old.pop("passed_at", None)
    name, may_run, is_silent = (old.pop(key, False) for key in ("phase", "released", "is_silent"))
    check_in = {
        key: old.pop(key) for key in ("nonce", "batch_job", "address", "hosts") if key in old
    }
    grant = Grant(at=granted_at or 0.0, **{"nonce": "", **check_in})
    phase: Any
    match name:
        case "asked":
            phase = Asked()
        case "passed":
            phase = Passed(grant=grant, passed_at=passed_at)
        case "stopping":
            phase = Stopped(
                grant=None if granted_at is None else grant,
                passed_at=passed_at,
                may_run=may_run,
                is_silent=is_silent,
            )
        case _:
            phase = {"granted": Granted, "armed": Armed, "released": Released}[name](grant=grant)
    Claim.__init__(claim, phase=phase, **old)


OLD: dict[str, tuple[type, Callable[[Any, Old], None]]] = {"job.Claim": (Claim, _fill_claim)}
"""Class of today by old tag, and the function that fills an object of it."""
OLD_ENUMS: dict[str, Callable[[str], object]] = {"job.ClaimPhase": str}
