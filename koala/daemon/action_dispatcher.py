"""Dispatch actions as messages once their event is durable.

An action for a site is only a part of `Scheduler.wanted(site)`, sent early. While the site has no
live session it is dropped, and the next registration sends it again. Actions that concern no agent
go to the spool. Transfer tokens are derived from the daemon's secret, so that a repeated order is
idempotent.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping

from koala.core.model.actions import (
    AcknowledgeClaim,
    Action,
    Announce,
    ArmClaim,
    CancelTransfer,
    ClaimProcessors,
    PaceClaim,
    PublishOutputs,
    ReleaseClaim,
    StartTransfer,
    StopClaim,
    TryPaths,
    Wanted,
)
from koala.core.model.grid import Site
from koala.core.model.values import SiteName
from koala.daemon.files.spool import Purpose, token
from koala.protocol import to_agent
from koala.wire.v1 import link_pb2 as pb


class ActionDispatcher:
    """Carry out actions; `send` puts a message into a site's live session, if there is one.

    `relay` is the relay's address as agents reach it; it is set once the relay runs.
    """

    def __init__(
        self,
        *,
        send: Callable[[SiteName, pb.ToAgent], None],
        publish: Callable[[PublishOutputs], None],
        sites: Callable[[], Mapping[SiteName, Site]],
        secret: bytes,
    ) -> None:
        self.relay = ""
        self._send = send
        self._publish = publish
        self._sites = sites
        self._secret = secret

    def carry_out(self, action: Action) -> None:  # noqa: C901 - one line a kind of action
        """Start an action. A site without a session receives it when it registers."""
        match action:
            case ClaimProcessors():
                self._send(action.site, self.hold(action))
            case TryPaths():
                self._send(action.site, to_agent.try_paths(action))
            case ArmClaim():
                self._send(action.site, to_agent.arm(action))
            case ReleaseClaim():
                self._send(action.site, to_agent.release(action))
            case PaceClaim():
                self._send(action.site, to_agent.pace(action))
            case StopClaim():
                self._send(action.site, to_agent.stop(action.claim))
            case AcknowledgeClaim():
                self._send(action.site, to_agent.acknowledge(action.claim))
            case StartTransfer():
                self._send(action.target, self.fetch(action))
                self._send(action.source, self.serve(action))
            case CancelTransfer():
                self._send(action.target, to_agent.cancel_transfer(action.transfer))
                if action.source != action.target:
                    self._send(action.source, to_agent.cancel_transfer(action.transfer))
            case PublishOutputs():
                self._publish(action)
            case Announce():
                pass  # group commit publishes it as a notice

    def messages(self, wanted: Wanted) -> Iterable[pb.ToAgent]:
        """Return the messages for the whole wanted state of a site."""
        yield from map(self.hold, wanted.holds)
        yield from map(to_agent.try_paths, wanted.paths)
        yield from map(to_agent.release, wanted.releases)
        yield from map(to_agent.pace, wanted.paces)
        yield from (to_agent.stop(action.claim) for action in wanted.stops)
        yield from map(self.fetch, wanted.fetches)
        yield from map(self.serve, wanted.serves)

    def hold(self, action: ClaimProcessors) -> pb.ToAgent:
        """Return the message to hold a claim, with the token to store its outputs and logs."""
        return to_agent.hold(action, store_token=token(self._secret, Purpose.STORE, action.claim))

    def fetch(self, action: StartTransfer) -> pb.ToAgent:
        """Return the order to the target: read from the source's file server, or from the relay."""
        address = self._file_server(action.source) or self.relay
        shown = token(self._secret, Purpose.READ, action.transfer)
        return to_agent.fetch(action, address=address, token=shown)

    def serve(self, action: StartTransfer) -> pb.ToAgent:
        """Return the order to the source: serve the file, or offer it to the relay."""
        if self._file_server(action.source):
            shown = token(self._secret, Purpose.READ, action.transfer)
            return to_agent.serve(action, relay="", token=shown)
        shown = token(self._secret, Purpose.OFFER, action.transfer)
        return to_agent.serve(action, relay=self.relay, token=shown)

    def _file_server(self, site: SiteName) -> str:
        known = self._sites().get(site)
        return known.facts.serves if known is not None else ""
