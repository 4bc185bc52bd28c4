"""Journal watermarks kept by agents: detect a rolled-back journal. Pure.

SQLite silently rolls back to the last good frame of its log, and a folder may be restored from an
old copy together with the commit position beside the journal. Both would undo acknowledged events.
Therefore:

- Each agent receives, with its orders, the newest committed row.
- It stores the row's number and chain value with the effects of the orders, and presents them when
  it registers.
- If the journal lacks that row, the orders came from another journal, and the daemon ends.

A watermark is signed with the daemon's secret, so that an agent cannot forge one to end the daemon.
Watermarks from before the epoch in which an operator accepted a loss (`--accept-loss`) are ignored.
"""

from __future__ import annotations

import hmac
from collections.abc import Callable
from dataclasses import dataclass
from enum import StrEnum

from koala.common.protocol.messages import Watermark
from koala.core.model.values import SiteName
from koala.daemon.storage.records import JournalPosition

_TAG_BYTES = 16


class WatermarkVerdict(StrEnum):
    """Result of checking an agent's watermark."""

    SAME = "same"
    UNSIGNED = "unsigned"
    """Not signed with this daemon's secret; it proves nothing."""
    BEHIND = "behind"
    """The journal lacks the row, or has another one with its number."""
    UNKNOWN = "unknown"
    """The row existed and was removed since."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Watermarks:
    """Watermarks of one daemon's run.

    `newest` returns the last committed row, `chain_at` the chain value of a row or None if it is
    not kept; `loss_epoch` is the epoch of the last accepted loss.
    """

    secret: bytes
    epoch: int
    loss_epoch: int
    newest: Callable[[], JournalPosition]
    chain_at: Callable[[int], bytes | None]

    def sign(self, site: SiteName, position: JournalPosition) -> Watermark:
        """Sign the watermark for the agent of a site."""
        tag = self._tag(site, self.epoch, position)
        return Watermark(epoch=self.epoch, seq=position.seq, chain=position.chain, seal=tag)

    def verify(self, site: SiteName, shown: Watermark) -> WatermarkVerdict:
        """Check the watermark that the agent of a site presents."""
        position = JournalPosition(shown.seq, shown.chain)
        if not hmac.compare_digest(self._tag(site, shown.epoch, position), shown.seal):
            return WatermarkVerdict.UNSIGNED
        if shown.epoch < self.loss_epoch or position.seq == 0:
            return WatermarkVerdict.SAME
        if position.seq > self.newest().seq:
            return WatermarkVerdict.BEHIND
        chain = self.chain_at(position.seq)
        if chain is None:
            return WatermarkVerdict.UNKNOWN
        return WatermarkVerdict.SAME if chain == position.chain else WatermarkVerdict.BEHIND

    def _tag(self, site: SiteName, epoch: int, position: JournalPosition) -> bytes:
        text = f"journal\0{site}\0{epoch}\0{position.seq}\0".encode() + position.chain
        return hmac.digest(self.secret, text, "sha256")[:_TAG_BYTES]
