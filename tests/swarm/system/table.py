"""Check of a site's claim table against the state diagram of koala_agent.claims.table.

It sees the stored and the reported states, and does not know how the table decides.
"""

from __future__ import annotations

from koala.common.protocol.messages import Report, ReportState
from koala_agent.claims.states import (
    Armed,
    Asked,
    Claim,
    Collecting,
    Ended,
    Gone,
    Granted,
    Passed,
    State,
    Stopping,
    Withdrawing,
)

FOLLOWS: dict[type[State], tuple[type[State], ...]] = {
    Asked: (Asked, Granted, Withdrawing, Gone),
    Withdrawing: (Withdrawing, Gone),
    Granted: (Granted, Armed, Passed, Stopping, Ended, Gone),
    Armed: (Armed, Passed, Stopping, Ended, Gone),
    Passed: (Passed, Stopping, Ended, Gone),
    Stopping: (Stopping, Ended, Gone),
    Ended: (Ended, Collecting, Gone),
    Collecting: (Collecting, Ended, Gone),  # an agent that starts again collects from the beginning
    Gone: (Gone,),
}
TOLD_AT = {
    ReportState.ASKED: tuple(FOLLOWS),
    ReportState.GRANTED: (Granted, Armed, Passed, Stopping, Ended, Collecting, Gone),
    ReportState.ARMED: (Armed, Passed, Stopping, Ended, Collecting, Gone),
    ReportState.PASSED: (Passed, Stopping, Ended, Collecting, Gone),
    ReportState.GONE: (Gone,),
}
"""States that must be stored when this is reported of a claim."""


def require_follows(stored: Claim | None, written: Claim) -> None:
    """Require that the first write wins, ends are final, and a claim keeps its first starter."""
    if stored is None:
        return
    before, after = stored.state, written.state
    text = f"promise 2: {written.id} is {before} and becomes {after}"
    assert type(after) in FOLLOWS[type(before)], text
    nonces = [getattr(state, "nonce", "") for state in (before, after)]
    assert not nonces[0] or nonces[0] == nonces[1], text


def require_stored(stored: Claim | None, told: Report) -> None:
    """Require that a report is stored, so that a crash cannot undo it."""
    if stored is None:
        return  # acknowledged and forgotten, or never known here
    text = f"promise 4: {told.claim} is told {told.state} and stored as {stored.state}"
    assert isinstance(stored.state, TOLD_AT[told.state]), text
