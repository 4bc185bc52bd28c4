"""The starters' questions: puts and gets of values that the daemon has not answered yet.

Starters number their questions each for itself; the daemon sees one series of numbers, that of this
book. It is not stored: a starter whose agent was away asks again. One that only lost its line does,
too, and is then not counted twice.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass

from koala_agent.claims.events import StarterGet, StarterPut
from koala_agent.claims.messages import ClaimId, KvAnswer, KvGet, KvPut

QUESTIONS_MAX = 1_024
"""Of one claim, that are not answered yet."""
SITE_QUESTIONS_MAX = 4_096
"""Of all claims. A new session asks them again at once, and that must not look like a flood."""


@dataclass(frozen=True, slots=True, kw_only=True)
class PendingRequest:
    """A put or get under way: who asked, under which number of its own, and what was sent on."""

    nonce: str
    request: int
    message: KvPut | KvGet


class PendingRequests:
    """Those of all claims of a site."""

    def __init__(self) -> None:
        self._open: dict[int, PendingRequest] = {}
        self._counts: Counter[ClaimId] = Counter()
        self._askers: set[tuple[ClaimId, str, int]] = set()
        self._asked = 0

    def __iter__(self) -> Iterator[KvPut | KvGet]:
        """What the daemon was asked and has not answered; in a new session it is asked again."""
        return (question.message for question in self._open.values())

    def waits(self, event: StarterPut | StarterGet) -> bool:
        """Whether this very question of a starter is under way."""
        return (event.claim, event.nonce, event.request) in self._askers

    def refusal(self, claim: ClaimId) -> str:
        """Why the claim may not ask one more; empty when it may. What nobody bounds would be kept
        for as long as the daemon is away."""
        if self._counts[claim] >= QUESTIONS_MAX:
            return f"{QUESTIONS_MAX} puts and gets of this claim wait for an answer already"
        if len(self._open) >= SITE_QUESTIONS_MAX:
            return f"{SITE_QUESTIONS_MAX} puts and gets of this site wait for an answer already"
        return ""

    def ask(self, event: StarterPut | StarterGet) -> KvPut | KvGet:
        """The question as the daemon is asked it."""
        self._asked += 1
        message = _numbered(event, self._asked)
        question = PendingRequest(nonce=event.nonce, request=event.request, message=message)
        self._open[message.request] = question
        self._counts[event.claim] += 1
        self._askers.add((event.claim, event.nonce, event.request))
        return message

    def answered(self, answer: KvAnswer) -> PendingRequest | None:
        """What this is the answer to, which then waits no longer; None when nothing waits for it,
        or another claim's."""
        question = self._open.get(answer.request)
        if question is None or question.message.claim != answer.claim:
            return None
        del self._open[answer.request]
        self._counts[answer.claim] -= 1
        self._askers.discard((answer.claim, question.nonce, question.request))
        return question

    def drop(self, claim: ClaimId) -> None:
        """Nobody waits for the answers to this claim any more."""
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
