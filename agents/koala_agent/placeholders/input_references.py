"""Reference counts of input copies: which claims still read a file of the spool. Pure.

A copy may arrive before the claim that reads it is stored, and two claims may read one copy; so the
Holds of the present session count in addition to the stored claims.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from koala.common.protocol.messages import Hold
from koala.common.protocol.names import ClaimId
from koala_agent.claims.states import Claim, Gone


class InputReferences:
    """References from claims to copies. `stored` are the stored claims by id, read only."""

    def __init__(self, stored: Mapping[ClaimId, Claim]) -> None:
        self._stored = stored
        self._told: dict[str, Hold] = {}  # in this session

    def begin_session(self) -> None:
        """Forget the Holds of the previous session; the daemon repeats all that it wants."""
        self._told.clear()

    def add(self, hold: Hold) -> None:
        """Add a Hold of the present session."""
        self._told[hold.claim] = hold

    def hold_of(self, claim: str) -> Hold | None:
        """Return the Hold of a claim, None when it is unknown."""
        known = self._stored.get(ClaimId(claim))
        return self._told.get(claim) if known is None else known.hold

    def read_by(self, claims: Iterable[str]) -> frozenset[str]:
        """Return the transfers whose files these claims read."""
        holds = map(self.hold_of, claims)
        return frozenset(transfer for hold in holds if hold is not None for transfer in hold.inputs)

    def drop(self, claim: str) -> list[str]:
        """Drop a claim; return the transfers whose files have no reader left."""
        hold = self.hold_of(claim)
        self._told.pop(claim, None)
        if hold is None or not hold.inputs:
            return []
        # Gone claims read nothing: several may be acknowledged before the first is forgotten.
        others = (
            reader.hold
            for reader in self._stored.values()
            if reader.id != claim and not isinstance(reader.state, Gone)
        )
        still_read = {transfer for reader in others for transfer in reader.inputs}
        return [transfer for transfer in hold.inputs if transfer not in still_read]
