"""Files that users add to the store of a site, from the daemon's spool, and removals there.

An addition outlives a cut client for `LINGER_S`, and a cut session of its site: each registration
repeats the orders. The site's report of the file in its store ends it.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field, replace

from koala.common.protocol import messages
from koala.core.model.values import SiteName
from koala.daemon.files.transfer_tokens import Purpose, token
from koala.daemon.files.uploads import Content, transfer_of

LINGER_S = 60.0
REPORT_S = 0.5


@dataclass(kw_only=True, eq=False)
class Addition:
    """File on its way to a site. `changed` is set at each report of the site about it."""

    site: SiteName
    order: messages.FetchOrder
    moved_bytes: int = 0
    is_found: bool = False
    problem: str = ""
    watchers: int = 0
    changed: asyncio.Event = field(default_factory=asyncio.Event)

    @property
    def is_over(self) -> bool:
        """True once the site has the file, or cannot have it."""
        return self.is_found or bool(self.problem)


class Additions:
    """Additions and removals under way. `send` puts a message into a site's live session, `relay`
    returns the relay's address; `secret` is the key of the tokens."""

    def __init__(
        self,
        *,
        send: Callable[[SiteName, messages.ToAgent], None],
        relay: Callable[[], str],
        secret: bytes,
    ) -> None:
        self._send = send
        self._relay = relay
        self._secret = secret
        self._open: dict[tuple[SiteName, str], Addition] = {}
        self._removals: dict[tuple[SiteName, str], asyncio.Event] = {}

    @contextmanager
    def adding(
        self, site: SiteName, content: Content, name: str, path: str = ""
    ) -> Iterator[Addition]:
        """Bring an upload, or the site's file at `path`, into its store; yield the addition."""
        transfer = transfer_of(content.key, name)
        addition = self._open.get((site, transfer))
        if addition is None or addition.is_over:
            order = messages.FetchOrder(
                transfer=transfer,
                file=name,
                source="daemon",
                address="",
                token=token(self._secret, Purpose.GET, transfer),
                size_bytes=content.size_bytes,
                checksum="" if path else content.checksum,
                path=path,
                report_s=REPORT_S,
                keep_as=name,
            )
            addition = self._open[site, transfer] = Addition(site=site, order=order)
            self._send(site, self._addressed(order))
        addition.watchers += 1
        try:
            yield addition
        finally:
            addition.watchers -= 1
            if addition.is_over:
                self._drop(addition)
            else:
                loop = asyncio.get_running_loop()
                loop.call_later(LINGER_S, self._drop_unwatched, addition)

    @contextmanager
    def removing(self, site: SiteName, name: str) -> Iterator[asyncio.Event]:
        """Order the removal of a file; the event is set when the site has reported it gone."""
        event = self._removals.setdefault((site, name), asyncio.Event())
        self._send(site, messages.RemoveFile(file=name))
        try:
            yield event
        finally:
            self._removals.pop((site, name), None)

    def orders(self, site: SiteName) -> list[messages.ToAgent]:
        """Return the orders for a site that registers."""
        return [
            self._addressed(addition.order)
            for addition in self._open.values()
            if addition.site == site
        ]

    def note(self, site: SiteName, report: messages.AgentReport, objection: str = "") -> None:
        """Note a report of a site that is durable now. `objection` is why a file does not count."""
        match report:
            case messages.FileRemoved(file=file) if event := self._removals.get((site, file)):
                event.set()
            case messages.TransferProgress() | messages.TransferFailed():
                if (addition := self._open.get((site, report.transfer))) is not None:
                    if isinstance(report, messages.TransferFailed):
                        addition.problem = report.reason
                    else:
                        addition.moved_bytes = report.size_bytes
                    addition.changed.set()
            case messages.FileFound():
                for addition in list(self._open.values()):
                    order = addition.order
                    is_same = report.checksum == order.checksum or order.path
                    if addition.site == site and report.file == order.keep_as and is_same:
                        addition.moved_bytes = report.size_bytes
                        addition.problem = objection
                        addition.is_found = not objection
                        addition.changed.set()
            case _:
                pass

    def _addressed(self, order: messages.FetchOrder) -> messages.FetchOrder:
        """Name the relay of this life of the daemon in an order."""
        return replace(order, address=self._relay())

    def _drop_unwatched(self, addition: Addition) -> None:
        if not addition.watchers:
            self._drop(addition)

    def _drop(self, addition: Addition) -> None:
        """Forget an addition; the site deletes what is left of its copy."""
        key = (addition.site, addition.order.transfer)
        if self._open.get(key) is addition:
            del self._open[key]
            self._send(addition.site, messages.CancelTransfer(transfer=addition.order.transfer))
