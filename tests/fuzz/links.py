"""The link between daemon and agent, both ways, as bytes through the real codecs.

Upwards: whatever an agent sends, the daemon has a value that its journal and core can hold, or an
error of ours. Downwards: whatever the daemon sends, the agent's claim table goes on.
"""

from __future__ import annotations

from collections.abc import Iterator
from random import Random

import msgspec
from google.protobuf.message import DecodeError

from koala.common.protocol import messages
from koala.common.protocol.codec import FROM_AGENT
from koala.common.protocol.messages import (
    Beat,
    FileFound,
    FileRemoved,
    FromAgent,
    Goodbye,
    InventoryEnd,
    Register,
    Report,
)
from koala.common.protocol.versions import PROTOCOL
from koala.common.wire.v1 import link_pb2 as pb
from koala.core.invariants import check as check_state
from koala.core.model import events as ev
from koala.core.model.parameters import Parameters
from koala.core.model.values import SiteName
from koala.core.scheduler import Scheduler
from koala.daemon.agents import reports
from koala.daemon.agents.replica_reports import ReplicaReports
from koala.daemon.storage.records import decode_event, encode_event
from koala.errors import SpecError
from koala.policies import chosen
from koala_agent.link import codec, session_events
from tests.fuzz.hostile_values import fill, sent
from tests.fuzz.tables import a_table, require_storable
from tests.fuzz.target import Target, require_readable
from tests.harness.builders import a_job, a_site

CLAIMS = ("j1/1/0/1", "j1/1/0/1", "j1/1/1/1", "j2/1/0/1", "j9/9/9/9", "../../x/1/1/1")
TRANSFERS = ("j2/1/t1", "j1/1/t1", "x")


def an_upward_message(random: Random) -> bytes:
    return _message(random, pb.FromAgent())


def an_upward_case(random: Random) -> list[bytes]:
    """Some messages of one agent, in a row."""
    return [an_upward_message(random) for _ in range(random.choice((1, 2, 4)))]


def a_downward_case(random: Random) -> list[bytes]:
    return [_message(random, pb.ToAgent()) for _ in range(random.choice((1, 2, 4)))]


def _message(random: Random, message: pb.FromAgent | pb.ToAgent) -> bytes:
    kinds = [field.name for field in message.DESCRIPTOR.oneofs[0].fields]
    body = getattr(message, random.choice(kinds))
    body.SetInParent()
    fill(random, body)
    names = body.DESCRIPTOR.fields_by_name
    if "claim" in names and random.randrange(4):
        body.claim = random.choice(CLAIMS)
    if "transfer" in names and random.randrange(4):
        body.transfer = random.choice(TRANSFERS)
    return sent(random, message)


def a_grid() -> Scheduler:
    """Two sites, a job whose claims are asked of both, and one at the other site only."""
    scheduler = Scheduler(Parameters(), chosen())
    for event in (
        ev.DaemonStarted(epoch=1),
        a_site("delft", 8),
        a_site("leiden", 8),
        a_job("j1", 8, 8),
    ):
        scheduler.handle(event, 0.0)
    while scheduler.wake_at is not None and scheduler.wake_at <= 0.0:
        scheduler.handle(ev.Woken(), 0.0)
    return scheduler


def check_upward(case: list[bytes]) -> None:
    scheduler = a_grid()
    site, now, replicas = SiteName("delft"), 1.0, ReplicaReports()
    others = {c.id: c for c in scheduler.ledger.values() if c.site != site}
    assert others, "the grid of this test has a claim elsewhere"
    for data in case:
        try:
            message = FROM_AGENT.decode(pb.FromAgent.FromString(data))
        except DecodeError:
            continue
        except SpecError as error:
            require_readable(str(error))
            continue
        if message is None:
            continue
        if isinstance(message, Register):
            if message.protocol != PROTOCOL or message.site != site:
                continue
            events = list(
                reports.registration_events(message, (), scheduler, ReplicaReports(), now)
            )
        else:
            events = [*_events(message, site, scheduler, replicas, now)]
        if isinstance(message, Report) and message.claim in others:
            assert not events, f"{events} of another site's claim"
        for event in events:
            now += 1.0
            assert decode_event(type(event).__name__, encode_event(event)) == event
            scheduler.handle(event, now)
            check_state(scheduler, now)
    msgspec.json.encode([*scheduler.jobs])


def _events(
    message: FromAgent, site: SiteName, scheduler: Scheduler, replicas: ReplicaReports, now: float
) -> Iterator[ev.Event]:
    """The events of what is no registration."""
    match message:
        case FileFound() | FileRemoved():
            return replicas.events_of(message, site, scheduler)
        case Register() | InventoryEnd() | Beat() | Goodbye():
            return iter(())
        case _:
            return reports.report_events(message, site, scheduler, rtt_s=0.0, now=now)


def check_downward(case: list[bytes]) -> None:
    table = a_table()
    for data in case:
        try:
            message = pb.ToAgent.FromString(data)
        except DecodeError:
            continue
        try:
            said = codec.decode(message)
        except SpecError as error:
            require_readable(str(error))
            continue
        if not isinstance(said, session_events.Order):
            continue
        match said.body:
            case messages.Hold() as hold:
                require_storable(table.hold(hold))
            case (
                messages.TryPaths() | messages.Arm() | messages.Release() | messages.Resize()
                | messages.Pace() | messages.Stop() | messages.Acknowledge() | messages.Pong()
                | messages.KvAnswer() as order
            ):  # fmt: skip
                require_storable(table.tell(order))
            case _:
                pass


TARGETS = (
    Target(name="link-up", make=an_upward_case, check=check_upward, share=0.5),
    Target(name="link-down", make=a_downward_case, check=check_downward, share=0.5),
)
