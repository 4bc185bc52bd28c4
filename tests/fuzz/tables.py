"""A claim table in the middle of its life, and what must hold of all that it puts out."""

from __future__ import annotations

import json

import msgspec

from koala.common.protocol import messages
from koala.common.protocol.codec import FROM_AGENT
from koala.common.protocol.messages import Hold, Program
from koala.common.protocol.names import SiteName
from koala.common.wire.v1 import link_pb2 as pb
from koala.errors import SpecError
from koala_agent.claims.events import (
    CheckedIn,
    Event,
    HoldOrdered,
    Output,
    SendToDaemon,
    SendToStarter,
    StarterArmed,
    StoreClaim,
)
from koala_agent.claims.settings import LeaseTimes, Limits
from koala_agent.claims.states import Claim, inventory_of
from koala_agent.claims.table import ClaimTable
from koala_agent.link import codec
from koala_agent.starter_link import codec as starter_codec
from tests.agent.claims.table_script import CLAIM, NUMBER, an_arm

NONCE = "n"
FACTS = codec.SiteDescription(
    version="1",
    site=SiteName("delft"),
    facts=messages.Facts(processors=8, grace_s=5.0, starts_after_stop=True, address="h"),
)


class Table:
    """A table whose outputs are collected."""

    def __init__(self) -> None:
        self.machine = ClaimTable(limits=Limits(), leases=LeaseTimes(), now=0.0)
        self._now = 0.0

    def hold(self, hold: Hold) -> list[Output]:
        return self.tell(HoldOrdered(hold=hold, secret="s"))

    def tell(self, event: Event) -> list[Output]:
        self._now += 0.1
        return self.machine.handle(event, self._now)


def a_table(*, is_bound: bool = True) -> Table:
    """One with a claim that has checked in and armed."""
    table = Table()
    program = Program(executable="/bin/true", output_files=("out",))
    table.hold(Hold(claim=CLAIM, port=20_000, processors=1, hold_s=60.0, program=program))
    if is_bound:
        table.tell(CheckedIn(claim=CLAIM, nonce=NONCE))
        table.tell(an_arm())
        table.tell(StarterArmed(claim=CLAIM, nonce=NONCE, number=NUMBER))
    return table


def require_storable(outputs: list[Output]) -> None:
    """Check that records can be read again, that messages for starters fit a line, and that the
    daemon takes what it is told: what it does not take ends the session of the whole site."""
    for output in outputs:
        match output:
            case StoreClaim(claim=claim):
                stored = msgspec.json.encode(claim)
                assert msgspec.json.decode(stored, type=Claim) == claim
                for said in inventory_of((claim,)):
                    require_taken(said)
            case SendToStarter(message=message):
                line = json.dumps(starter_codec.encode(message)).encode()
                assert b"\n" not in line
            case SendToDaemon(message=message):
                require_taken(message)
            case _:
                pass


def require_taken(said: object) -> None:
    """The daemon takes this."""
    sent = codec.encode(said, lambda: FACTS).SerializeToString()
    try:
        FROM_AGENT.decode(pb.FromAgent.FromString(sent))
    except SpecError as error:
        raise AssertionError(f"{said} ends the session of the site: {error}") from error
