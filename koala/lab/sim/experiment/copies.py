"""Third-party copies of input files over links with bandwidth."""

from __future__ import annotations

from collections.abc import Callable

from koala.core.model.actions import StartTransfer
from koala.core.model.events import TransferFailed, TransferFinished
from koala.core.model.values import Instant, SiteName, TransferId
from koala.lab.sim.engine import Engine, Entry
from koala.lab.sim.experiment.setting import Links

Emit = Callable[[TransferFinished | TransferFailed], None]


class Copies:
    """All copies in progress. A link is an ordered pair of sites."""

    def __init__(self, engine: Engine, links: Links, *, default_bps: float, emit: Emit) -> None:
        self._engine = engine
        self._links = links
        self._default_bps = default_bps
        self._emit = emit
        self._active: dict[TransferId, tuple[StartTransfer, Instant, _Link]] = {}
        self._shared: dict[tuple[SiteName, SiteName], _Link] = {}
        self._down: dict[SiteName, bool] = {}

    def begin(self, order: StartTransfer) -> None:
        """Start a copy now; it fails at once when one of its ends is down."""
        if order.transfer in self._active:
            return
        for end in (order.source, order.target):
            if end in self._down:
                self._fail(order, end)
                return
        link = self._link(order.source, order.target)
        self._active[order.transfer] = (order, self._engine.now, link)
        link.add(order.transfer, order.size_bytes)

    def cancel(self, transfer: TransferId) -> None:
        """Cancel a copy."""
        if transfer in self._active:
            self._active.pop(transfer)[2].remove(transfer)

    def take_down(self, site: SiteName) -> None:
        """Take a site down: copies from and to it fail."""
        self._down[site] = True
        lost = [o for o, _, _ in self._active.values() if site in (o.source, o.target)]
        for order in lost:
            self.cancel(order.transfer)
            self._fail(order, site)

    def repair(self, site: SiteName) -> None:
        """Bring a site up again."""
        self._down.pop(site, None)

    def _link(self, source: SiteName, target: SiteName) -> _Link:
        bps = self._links.bandwidth.get((source, target), self._default_bps)
        if not self._links.is_shared:  # each copy has the link as if to itself
            return _Link(self._engine, bps, self._finish)
        if (source, target) not in self._shared:
            self._shared[source, target] = _Link(self._engine, bps, self._finish)
        return self._shared[source, target]

    def _finish(self, transfer: TransferId) -> None:
        order, began_at, _ = self._active.pop(transfer)
        took_s = self._engine.now - began_at
        self._emit(TransferFinished(transfer=transfer, size_bytes=order.size_bytes, took_s=took_s))

    def _fail(self, order: StartTransfer, site: SiteName) -> None:
        failed = TransferFailed(transfer=order.transfer, at=site, reason=f"{site} is down")
        self._engine.after(0.0, lambda: self._emit(failed))


class _Link:
    """Copies that share a bandwidth equally. `_sent` is the amount that a copy present all the time
    has received so far; a copy is done when its own mark on that scale is reached."""

    def __init__(self, engine: Engine, bps: float, finish: Callable[[TransferId], None]) -> None:
        self._engine = engine
        self._bps = bps
        self._finish = finish
        self._marks: dict[TransferId, float] = {}
        self._sent = 0.0
        self._sent_at: Instant = engine.now
        self._next: Entry | None = None

    def add(self, transfer: TransferId, size_bytes: int) -> None:
        self._advance()
        self._marks[transfer] = self._sent + size_bytes
        self._wait()

    def remove(self, transfer: TransferId) -> None:
        self._advance()
        del self._marks[transfer]
        self._wait()

    def _advance(self) -> None:
        now = self._engine.now
        if self._marks:
            self._sent += (now - self._sent_at) * self._bps / len(self._marks)
        self._sent_at = now

    def _wait(self) -> None:
        if self._next is not None:
            self._next.cancel()
            self._next = None
        if not self._marks:
            self._sent = 0.0
            return
        first = min(self._marks, key=self._marks.__getitem__)
        left = max(0.0, self._marks[first] - self._sent)
        self._next = self._engine.after(
            left * len(self._marks) / self._bps, lambda: self._over(first)
        )

    def _over(self, transfer: TransferId) -> None:
        self._next = None
        self.remove(transfer)
        self._finish(transfer)
