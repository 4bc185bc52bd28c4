"""Messages of the link as the agent's session takes them, and the registration of its site.

`decode` returns a value of `session` or `messages`, or None for a kind of message of a later
protocol. Whatever bytes arrive, its only error is a SpecError that says what is allowed.
"""

from __future__ import annotations

from koala.protocol import codec, messages
from koala.protocol.versions import PROTOCOL, PROTOCOL_MIN
from koala.wire.v1 import link_pb2
from koala_agent.link import session

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
    messages.Pace,
    messages.Stop,
    messages.Acknowledge,
)


def decode(message: link_pb2.ToAgent) -> session.FromDaemon | None:
    """Decode a message of the daemon. Raises SpecError.

    An order about a claim or a copy names it as wanted. Answers and cancellations name none.
    """
    body = codec.decode(message)
    if body is None or isinstance(body, _OF_THE_SESSION):
        return body
    if isinstance(body, _OF_A_CLAIM):
        return session.Order(body=body, claim=body.claim)
    if isinstance(body, messages.FetchOrder | messages.ServeOrder):
        return session.Order(body=body, transfer=body.transfer)
    return session.Order(body=body)


def mark_of(message: link_pb2.ToAgent) -> messages.Watermark | None:
    """Decode the row of the journal that a message rests on, if it names one."""
    if not message.HasField("mark"):
        return None
    mark = message.mark
    return messages.Watermark(epoch=mark.epoch, seq=mark.seq, chain=mark.chain, seal=mark.seal)


def encode(message: object, facts: messages.Facts) -> link_pb2.FromAgent:
    """Encode a message of the session or a report; the site's facts complete a registration."""
    if isinstance(message, messages.Register):
        return link_pb2.FromAgent(register=_register(message, facts))
    return codec.encode(message)


def _register(register: messages.Register, facts: messages.Facts) -> link_pb2.Register:
    mark = register.mark
    return link_pb2.Register(
        protocol=PROTOCOL,
        protocol_min=PROTOCOL_MIN,
        mark=None
        if mark is None
        else link_pb2.Mark(epoch=mark.epoch, seq=mark.seq, chain=mark.chain, seal=mark.seal),
        version=facts.version,
        site=facts.site,
        session=register.session,
        epoch_seen=register.epoch_seen,
        idle=register.idle,
        facts=link_pb2.Facts(
            processors=facts.processors,
            grace_s=facts.grace_s,
            starts_after_stop=facts.starts_after_stop,
            address=facts.address,
            serves=facts.serves,
            owner=facts.owner,
            honours=facts.honours,
            may_kill_local=facts.may_kill_local,
            users=facts.users,
            mips=facts.mips,
            slots=facts.slots,
        ),
    )
