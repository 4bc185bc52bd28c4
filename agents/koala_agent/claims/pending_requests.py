"""Key-value requests of starters that the daemon has not answered yet.

Starters number their requests each for itself; the daemon sees one series of numbers, assigned
here. Nothing is stored: a starter whose agent restarted asks again. So does one that only lost its
connection, and its request is not duplicated.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, replace

from koala.common.protocol.messages import KvAnswer, KvGet, KvPut
from koala.common.protocol.names import ClaimId

REQUESTS_MAX = 1_024
"""Unanswered requests of one claim."""
SITE_REQUESTS_MAX = 4_096
"""Unanswered requests of all claims. A new session repeats them at once, and that must not look
like a flood."""


@dataclass(frozen=True, slots=True, kw_only=True)
class PendingRequest:
    """Put or get under way: nonce and number of the starter, and the message that was sent on."""

    nonce: str
    request: int
    message: KvPut | KvGet


class PendingRequests:
    """Pending requests of all claims of a site."""

    def __init__(self) -> None:
        self._open: dict[int, PendingRequest] = {}
        self._counts: Counter[ClaimId] = Counter()
        self._keys: set[tuple[ClaimId, str, int]] = set()
        self._last_number = 0

    def __iter__(self) -> Iterator[KvPut | KvGet]:
        """Iterate over the unanswered messages, which a new session sends again."""
        return (pending.message for pending in self._open.values())

    def is_pending(self, nonce: str, asked: KvPut | KvGet) -> bool:
        """Test whether this very request of a starter is pending."""
        return (asked.claim, nonce, asked.request) in self._keys

    def refusal(self, claim: ClaimId) -> str:
        """Return why the claim may not ask once more; empty when it may. The bound matters while
        the daemon is away, because requests are kept until it answers."""
        if self._counts[claim] >= REQUESTS_MAX:
            return f"{REQUESTS_MAX} puts and gets of this claim wait for an answer already"
        if len(self._open) >= SITE_REQUESTS_MAX:
            return f"{SITE_REQUESTS_MAX} puts and gets of this site wait for an answer already"
        return ""

    def add(self, nonce: str, asked: KvPut | KvGet) -> KvPut | KvGet:
        """Register a request and return the message for the daemon."""
        self._last_number += 1
        message = replace(asked, request=self._last_number)
        pending = PendingRequest(nonce=nonce, request=asked.request, message=message)
        self._open[message.request] = pending
        self._counts[asked.claim] += 1
        self._keys.add((asked.claim, nonce, asked.request))
        return message

    def pop(self, answer: KvAnswer) -> PendingRequest | None:
        """Take out the request that this answers; None for an unknown number or another claim's."""
        pending = self._open.get(answer.request)
        if pending is None or pending.message.claim != answer.claim:
            return None
        del self._open[answer.request]
        self._counts[answer.claim] -= 1
        self._keys.discard((answer.claim, pending.nonce, pending.request))
        return pending

    def drop(self, claim: ClaimId) -> None:
        """Drop all requests of a claim."""
        if self._counts.pop(claim, 0):
            kept = {n: q for n, q in self._open.items() if q.message.claim != claim}
            self._open = kept
            self._keys = {key for key in self._keys if key[0] != claim}
