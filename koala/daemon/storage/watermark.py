"""What agents keep of the journal, and what their knowledge says about ours. Pure.

SQLite silently rolls back to the last good frame of its log, and a folder may be put back from an
old copy together with the mark beside the journal. Both would take back what was acknowledged. So
each agent is told, with its orders, the newest committed row; it stores the row's number and chain
value with what it does about the orders, and shows them when it registers. A journal that has not
that row is not the one that the orders came from, and the daemon ends.

The mark is sealed by the daemon's secret: an agent cannot make the daemon end by one made up.
Marks from before the epoch in which an operator accepted a loss (`--accept-loss`) count no more.
"""

from __future__ import annotations

import hmac
from collections.abc import Callable
from dataclasses import dataclass
from enum import StrEnum

from koala.core.model.values import SiteName
from koala.daemon.storage.records import JournalPosition
from koala.protocol.from_agent import SiteWatermark

_SEAL_BYTES = 16


class WatermarkVerdict(StrEnum):
    """What an agent's mark says about the journal."""

    SAME = "same"
    UNSEALED = "unsealed"
    """Not by a daemon with our secret; nothing follows from it."""
    BEHIND = "behind"
    """The row is missing here, or another one has its number."""
    UNKNOWN = "unknown"
    """The row was there and has been compacted away."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Watermarks:
    """The marks of one daemon's life. `newest` answers the last committed row, `chain_at` the chain
    value of a row, None when it is not kept; `loss_epoch` is the epoch of the last accepted loss.
    """

    secret: bytes
    epoch: int
    loss_epoch: int
    newest: Callable[[], JournalPosition]
    chain_at: Callable[[int], bytes | None]

    def sealed(self, site: SiteName, mark: JournalPosition) -> SiteWatermark:
        """The mark as the agent of a site keeps it."""
        seal = self._seal(site, self.epoch, mark)
        return SiteWatermark(epoch=self.epoch, seq=mark.seq, chain=mark.chain, seal=seal)

    def verdict(self, site: SiteName, shown: SiteWatermark) -> WatermarkVerdict:
        """What follows from the mark that the agent of a site shows."""
        mark = JournalPosition(shown.seq, shown.chain)
        if not hmac.compare_digest(self._seal(site, shown.epoch, mark), shown.seal):
            return WatermarkVerdict.UNSEALED
        if shown.epoch < self.loss_epoch or mark.seq == 0:
            return WatermarkVerdict.SAME
        if mark.seq > self.newest().seq:
            return WatermarkVerdict.BEHIND
        chain = self.chain_at(mark.seq)
        if chain is None:
            return WatermarkVerdict.UNKNOWN
        return WatermarkVerdict.SAME if chain == mark.chain else WatermarkVerdict.BEHIND

    def _seal(self, site: SiteName, epoch: int, mark: JournalPosition) -> bytes:
        text = f"journal\0{site}\0{epoch}\0{mark.seq}\0".encode() + mark.chain
        return hmac.digest(self.secret, text, "sha256")[:_SEAL_BYTES]
