"""Key-value requests of starters that the daemon has not answered yet.

Starters number their requests each for itself; the daemon sees one series of numbers, assigned
here. Nothing is stored: a starter whose agent restarted asks again. So does one that only lost its
connection, and its request is not duplicated.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass

from koala.protocol.messages import KvAnswer, KvGet, KvPut
from koala.protocol.names import ClaimId
from koala_agent.claims.events import StarterGet, StarterPut

QUESTIONS_MAX = 1_024
"""Unanswered requests of one claim."""
SITE_QUESTIONS_MAX = 4_096
"""Unanswered requests of all claims. A new session repeats them at once, and that must not look
like a flood."""


@dataclass(frozen=True, slots=True, kw_only=True)
class PendingRequest:
    """Put or get under way: the asking starter, its own number, and the message that was sent
    on."""

    nonce: str
    request: int
    message: KvPut | KvGet


class PendingRequests:
    """Pending requests of all claims of a site."""

    def __init__(self) -> None:
        self._open: dict[int, PendingRequest] = {}
        self._counts: Counter[ClaimId] = Counter()
        self._askers: set[tuple[ClaimId, str, int]] = set()
        self._asked = 0

    def __iter__(self) -> Iterator[KvPut | KvGet]:
        """Iterate over the unanswered messages, which a new session sends again."""
        return (question.message for question in self._open.values())

    def waits(self, event: StarterPut | StarterGet) -> bool:
        """Test whether this very request of a starter is pending."""
        return (event.claim, event.nonce, event.request) in self._askers

    def refusal(self, claim: ClaimId) -> str:
        """Return why the claim may not ask once more; empty when it may. The bound matters while
        the daemon is away, because requests are kept until it answers."""
        if self._counts[claim] >= QUESTIONS_MAX:
            return f"{QUESTIONS_MAX} puts and gets of this claim wait for an answer already"
        if len(self._open) >= SITE_QUESTIONS_MAX:
            return f"{SITE_QUESTIONS_MAX} puts and gets of this site wait for an answer already"
        return ""

    def ask(self, event: StarterPut | StarterGet) -> KvPut | KvGet:
        """Register a request and return the message for the daemon."""
        self._asked += 1
        message = _numbered(event, self._asked)
        question = PendingRequest(nonce=event.nonce, request=event.request, message=message)
        self._open[message.request] = question
        self._counts[event.claim] += 1
        self._askers.add((event.claim, event.nonce, event.request))
        return message

    def answered(self, answer: KvAnswer) -> PendingRequest | None:
        """Remove and return the request that this answers; None for an unknown number, or another
        claim's."""
        question = self._open.get(answer.request)
        if question is None or question.message.claim != answer.claim:
            return None
        del self._open[answer.request]
        self._counts[answer.claim] -= 1
        self._askers.discard((answer.claim, question.nonce, question.request))
        return question

    def drop(self, claim: ClaimId) -> None:
        """Drop all requests of a claim."""
        if self._counts.pop(claim, 0):
            kept = {n: q for n, q in self._open.items() if q.message.claim != claim}
            self._open = kept
            self._askers = {asker for asker in self._askers if asker[0] != claim}


def _numbered(event: StarterPut | StarterGet, number: int) -> KvPut | KvGet:
    match event:
        case StarterPut(claim=claim, name=name, value=value):
            return KvPut(claim=claim, request=number, name=name, value=value)
        case StarterGet(claim=claim, name=name, wait_s=wait_s):
            return KvGet(claim=claim, request=number, name=name, wait_s=wait_s)
