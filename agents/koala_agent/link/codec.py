"""Messages of the link as the agent's session takes and gives them."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace

from koala.common.protocol import codec, messages
from koala.common.protocol.names import SiteName
from koala.common.wire.v1 import link_pb2
from koala_agent.link import session_events

_OF_THE_SESSION = (
    messages.Welcome,
    messages.Reject,
    messages.WantedEnd,
    messages.Beat,
    messages.Goodbye,
)
_OF_A_CLAIM = (
    messages.Hold,
    messages.TryPaths,
    messages.Arm,
    messages.Release,
    messages.Resize,
    messages.Pace,
    messages.Stop,
    messages.Acknowledge,
)


def decode(message: link_pb2.ToAgent) -> session_events.FromDaemon | None:
    """Decode a message of the daemon. Raises SpecError.

    An order about a claim or a copy names it as wanted. Answers and cancellations name none.
    """
    body = codec.TO_AGENT.decode(message)
    if body is None or isinstance(body, _OF_THE_SESSION):
        return body
    if isinstance(body, _OF_A_CLAIM):
        return session_events.Order(body=body, claim=body.claim)
    if isinstance(body, messages.FetchOrder | messages.ServeOrder):
        return session_events.Order(body=body, transfer=body.transfer)
    return session_events.Order(body=body)


@dataclass(frozen=True, slots=True, kw_only=True)
class SiteDescription:
    """Part of a registration that the session does not know."""

    version: str
    site: SiteName
    facts: messages.Facts


def encode(message: object, describe: Callable[[], SiteDescription]) -> link_pb2.FromAgent:
    """Encode a message of the session or a report; a registration is completed."""
    if isinstance(message, messages.Register):
        site = describe()
        message = replace(message, version=site.version, site=site.site, facts=site.facts)
    return codec.FROM_AGENT.encode(message)
