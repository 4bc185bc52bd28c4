"""Shares of the places: how many requests of signed-in users are under way at once.

Pages and streams each have a part of the places of `connections`, and each identity a fifth of
either. What is left is for those who have not signed in yet.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass

from koala.errors import ExhaustedError
from koala.web.connections import places

IDENTITIES = 5
"""So many identities use up a share; one alone has no more than its part."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Kind:
    """A kind of requests: one of `parts` parts of the places, and at most `most`."""

    what: str
    parts: int
    most: int


PAGES = Kind(what="pages and downloads", parts=2, most=500)
STREAMS = Kind(what="live pages and followed logs", parts=4, most=1_000)


class Share:
    """Counts what is under way of one kind, in all and for each identity."""

    def __init__(self, kind: Kind) -> None:
        self._kind = kind
        self._open: Counter[str] = Counter()

    @contextmanager
    def taken(self, identity: str) -> Iterator[None]:
        """Count one more within the block. Raises ExhaustedError if that is too many."""
        most = min(self._kind.most, places() // self._kind.parts)
        each = most // IDENTITIES
        if self._open[identity] >= each:
            raise ExhaustedError(
                f"{each} {self._kind.what} are open with your sign-in already, and no more are"
                " allowed at a time: close some"
            )
        if self._open.total() >= most:
            raise ExhaustedError(
                f"{most} {self._kind.what} are open already, and no more are allowed at a time:"
                " try again later"
            )
        self._open[identity] += 1
        try:
            yield
        finally:
            self._open[identity] -= 1
            if not self._open[identity]:
                del self._open[identity]
