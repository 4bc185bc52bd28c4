"""Dispatch actions as messages once their event is durable.

An action for a site is only a part of `Scheduler.wanted(site)`, sent early. While the site has no
live session it is dropped, and the next registration sends it again. Actions that concern no agent
go to the spool. Transfer tokens are derived from the daemon's secret, so that a repeated order is
idempotent.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, replace
from itertools import chain

from koala.common.protocol import messages
from koala.common.protocol.messages import FetchOrder, PortAddress, ServeOrder, ToAgent
from koala.core.model import actions
from koala.core.model.grid import Site
from koala.core.model.values import SiteName
from koala.daemon.files.transfer_tokens import Purpose, token
from koala.daemon.files.uploads import content_of, transfer_of


@dataclass(frozen=True, slots=True, kw_only=True)
class ActionDispatcher:
    """Carry out actions.

    - `send` puts a message into a site's live session, if there is one.
    - `relay` returns the relay's address as agents reach it.
    - `secret` is the key of the tokens.
    """

    send: Callable[[SiteName, ToAgent], None]
    publish: Callable[[actions.PublishOutputs], None]
    relay: Callable[[], str]
    sites: Callable[[], Mapping[SiteName, Site]]
    secret: bytes

    def carry_out(self, action: actions.Action) -> None:
        """Start an action. A site without a session receives it when it registers."""
        match action:
            case actions.StartTransfer():
                self.send(action.target, self.fetch(action))
                self.send(action.source, self.serve(action))
            case actions.CancelTransfer():
                order = messages.CancelTransfer(transfer=action.transfer)
                for site in dict.fromkeys((action.target, action.source)):
                    self.send(site, order)
            case actions.PublishOutputs():
                self.publish(action)
            case actions.Announce():
                pass  # group commit publishes it as a notice
            case actions.ClaimProcessors():
                for message in self.hold(action):
                    self.send(action.site, message)
            case actions.ArmClaim(ports=ports) if ports:
                self.send(action.site, replace(action, ports=tuple(map(self._port(action), ports))))
            case _:
                self.send(action.site, action)

    def messages(self, wanted: actions.Wanted) -> Iterable[ToAgent]:
        """Return the messages for the whole wanted state of a site."""
        yield from chain.from_iterable(map(self.hold, wanted.holds))
        yield from chain(wanted.paths, wanted.releases, wanted.resizes)
        yield from chain(wanted.paces, wanted.stops)
        yield from map(self.fetch, wanted.fetches)
        yield from map(self.serve, wanted.serves)

    def hold(self, action: actions.ClaimProcessors) -> Iterable[ToAgent]:
        """Return the message to hold a claim, with the token to store its outputs and logs; before
        it the order to fetch its program's staged files."""
        held = replace(action, store_token=token(self.secret, Purpose.PUT, action.claim))
        content = content_of(action.program.archive, action.owner)
        if content is None:
            return (held,)
        transfer = transfer_of(content.key, "archive")
        order = FetchOrder(
            transfer=transfer,
            file="archive",
            source="daemon",
            address=self.relay(),
            token=token(self.secret, Purpose.GET, transfer),
            size_bytes=content.size_bytes,
            checksum=content.checksum,
        )
        return order, replace(held, inputs=(*held.inputs, transfer), archive=transfer)

    def _port(self, arm: actions.ArmClaim) -> Callable[[PortAddress], PortAddress]:
        """Return what adds the token of one claim to a port that is reached through the grid."""

        def with_token(port: PortAddress) -> PortAddress:
            if not port.is_forwarded:
                return port
            purpose = Purpose.LISTEN if port.claim == arm.claim else Purpose.DIAL
            shown = token(self.secret, purpose, f"{port.claim}/{port.name}")
            return replace(port, token=shown)

        return with_token

    def fetch(self, action: actions.StartTransfer) -> ToAgent:
        """Return the order to the target: read from the source's file server, or from the relay."""
        return FetchOrder(
            transfer=action.transfer,
            file=action.file,
            source=action.source,
            address=self._file_server(action.source) or self.relay(),
            token=token(self.secret, Purpose.GET, action.transfer),
            offset=action.offset,
            size_bytes=action.size_bytes,
            checksum=action.checksum,
            booked_bps=action.booked_bps,
            report_s=action.report_s,
        )

    def serve(self, action: actions.StartTransfer) -> ToAgent:
        """Return the order to the source: serve the file, or offer it to the relay."""
        has_server = bool(self._file_server(action.source))
        purpose = Purpose.GET if has_server else Purpose.PUT
        return ServeOrder(
            transfer=action.transfer,
            file=action.file,
            target=action.target,
            token=token(self.secret, purpose, action.transfer),
            offset=action.offset,
            size_bytes=action.size_bytes,
            relay="" if has_server else self.relay(),
            booked_bps=action.booked_bps,
        )

    def _file_server(self, site: SiteName) -> str:
        known = self.sites().get(site)
        return known.facts.serves if known is not None else ""
