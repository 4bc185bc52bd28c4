"""Check of what watchers are told: each number once, in order, with one text only (invariant H)."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

from koala.daemon.storage.records import Notice
from tests.swarm.breach import require
from tests.swarm.rules.record import ENDS


class Watchers:
    """Notices that watchers received."""

    def __init__(self) -> None:
        self._told: dict[int, Notice] = {}

    def noticed(self, notices: Sequence[Notice]) -> None:
        """Check invariant H: each number once, in order, with one text only."""
        for notice in notices:
            newest = next(reversed(self._told), 0)
            require(notice.number > newest, 4, f"notice {notice.number} comes after {newest}")
            self._told[notice.number] = notice

    def require_told(self, kept: Sequence[Notice]) -> None:
        """Check invariant H: the notices that watchers received can be read again, have no gap, and
        report each end once."""
        numbers = [notice.number for notice in kept]
        require(numbers == list(range(1, len(kept) + 1)), 4, f"notices have gaps: {numbers}")
        by_number = {notice.number: notice for notice in kept}
        for number, notice in self._told.items():
            require(by_number.get(number) == notice, 4, f"{notice} was told, and is not kept so")
        ends = Counter(notice.job for notice in kept if notice.phase in ENDS)
        twice = [job for job, count in ends.items() if count > 1]
        require(not twice, 2, f"the end of {twice} is told twice")
