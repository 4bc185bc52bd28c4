"""Actions as messages: what leaves the daemon once an event is durable.

An action towards a site is only `Scheduler.wanted(site)` told early: while the site has no live
session it is dropped, and the next registration says it. Actions that concern nobody's agent go to
the spool. Tokens of transfers are derived from the daemon's secret, so that a repeated order is the
same order.
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
    """Carries actions out: `send` puts a message into a site's live session, if there is one.

    `relay` is the relay's address as agents reach it; it is known once the relay runs.
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
        """Begin to do this; what a site does not hear now, it hears when it registers."""
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
                pass  # the pump publishes it as a notice

    def messages(self, wanted: Wanted) -> Iterable[pb.ToAgent]:
        """All that is wanted of a site."""
        yield from map(self.hold, wanted.holds)
        yield from map(to_agent.try_paths, wanted.paths)
        yield from map(to_agent.release, wanted.releases)
        yield from map(to_agent.pace, wanted.paces)
        yield from (to_agent.stop(action.claim) for action in wanted.stops)
        yield from map(self.fetch, wanted.fetches)
        yield from map(self.serve, wanted.serves)

    def hold(self, action: ClaimProcessors) -> pb.ToAgent:
        """A claim to be held, with what lets it store its outputs and logs."""
        return to_agent.hold(action, store_token=token(self._secret, Purpose.STORE, action.claim))

    def fetch(self, action: StartTransfer) -> pb.ToAgent:
        """To the target: read from the source's own file server, or from the relay."""
        address = self._file_server(action.source) or self.relay
        shown = token(self._secret, Purpose.READ, action.transfer)
        return to_agent.fetch(action, address=address, token=shown)

    def serve(self, action: StartTransfer) -> pb.ToAgent:
        """To the source: serve it, or offer it to the relay."""
        if self._file_server(action.source):
            shown = token(self._secret, Purpose.READ, action.transfer)
            return to_agent.serve(action, relay="", token=shown)
        shown = token(self._secret, Purpose.OFFER, action.transfer)
        return to_agent.serve(action, relay=self.relay, token=shown)

    def _file_server(self, site: SiteName) -> str:
        known = self._sites().get(site)
        return known.facts.serves if known is not None else ""
