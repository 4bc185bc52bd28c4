"""Scripts of the claim table, for its tests: events in, outputs out."""

from __future__ import annotations

import msgspec

from koala.common.protocol.messages import (
    Arm,
    ArmNumber,
    ClaimEnd,
    EndKind,
    Hold,
    Peer,
    Program,
    Release,
    Report,
    ReportState,
    Stop,
)
from koala.common.protocol.names import ClaimId
from koala_agent.claims.events import (
    BatchEnded,
    CheckedIn,
    Event,
    Forget,
    HoldOrdered,
    Output,
    SendToDaemon,
    SendToStarter,
    StarterArmed,
    StarterLost,
    StarterPassed,
    StoreClaim,
    Woken,
)
from koala_agent.claims.settings import LeaseTimes, Limits
from koala_agent.claims.states import Claim
from koala_agent.claims.table import ClaimTable
from koala_agent.lrm.local_manager import EndCause

CLAIM = ClaimId("j1/1/0/1")
NUMBER = ArmNumber(epoch=1, counter=1)
RELEASE = Release(claim=CLAIM, number=NUMBER, release_at=100.0)
WELL = ClaimEnd(kind=EndKind.EXITED, statuses=(0,))
STOP = Stop(claim=CLAIM)
LOST = StarterLost(claim=CLAIM, nonce="n")
TELL_STOP = SendToStarter(claim=CLAIM, nonce="n", message=STOP)


def a_hold(
    claim: ClaimId = CLAIM,
    *,
    is_granted: bool = False,
    owner: str = "",
    waits: bool = False,
    is_gated: bool = False,
    **program: object,
) -> HoldOrdered:
    wanted = Program(**{"executable": "/bin/true", **program})  # type: ignore[arg-type]
    hold = Hold(
        port=20_000,
        claim=claim,
        processors=4,
        hold_s=60.0,
        program=wanted,
        is_granted=is_granted,
        owner=owner,
        waits=waits,
        is_gated=is_gated,
    )
    return HoldOrdered(hold=hold, secret="s")


def an_arm(counter: int = 1) -> Arm:
    peer = Peer(
        port=20_000,
        component=0,
        label="",
        site="x",
        processors=1,
        processes=1,
        address="a",
        claim=CLAIM,
    )
    number = ArmNumber(epoch=1, counter=counter)
    return Arm(claim=CLAIM, number=number, release_at=100.0, late_s=2.0, peers=(peer,))


class TableScript:
    """A table with a grace of 5 s; `at` is the instant of what follows."""

    def __init__(self, restored: list[Claim] | None = None, **limits: object) -> None:
        self.at = 0.0
        self.stored: dict[ClaimId, Claim] = {}
        self.limits = Limits(**limits)  # type: ignore[arg-type]
        self.table = self._table(restored or [])

    def _table(self, restored: list[Claim]) -> ClaimTable:
        return ClaimTable(limits=self.limits, leases=LeaseTimes(), now=self.at, restored=restored)

    def tell(self, *events: Event) -> list[Output]:
        """The outputs of the last event but what is stored, which is kept apart."""
        outputs: list[Output] = []
        for event in events:
            outputs = self.table.handle(event, self.at)
            for output in outputs:
                if isinstance(output, StoreClaim):
                    self.stored[output.claim.id] = output.claim
                elif isinstance(output, Forget):
                    del self.stored[output.claim]
        return [output for output in outputs if not isinstance(output, StoreClaim)]

    def wake(self) -> list[Output]:
        """At the very instant that the table asked for."""
        wake_at = self.table.wake_at
        assert wake_at is not None
        self.at = wake_at
        return self.tell(Woken())

    def restarted(self) -> None:
        """The agent dies and another one reads what was stored, from JSON."""
        body = msgspec.json.encode(list(self.stored.values()))
        self.table = self._table(msgspec.json.decode(body, type=list[Claim]))

    def held(self) -> None:
        self.tell(a_hold(), CheckedIn(claim=CLAIM, nonce="n"))

    def armed(self) -> None:
        self.held()
        self.tell(an_arm(), StarterArmed(claim=CLAIM, nonce="n", number=NUMBER))

    def passed(self, **program: object) -> None:
        self.tell(a_hold(**program), CheckedIn(claim=CLAIM, nonce="n"))  # type: ignore[arg-type]
        self.tell(an_arm(), StarterArmed(claim=CLAIM, nonce="n", number=NUMBER), RELEASE)
        self.tell(StarterPassed(claim=CLAIM, nonce="n", passed_at=100.0))


def batch_ended(cause: EndCause = EndCause.EXITED, **fields: object) -> BatchEnded:
    return BatchEnded(claim=CLAIM, cause=cause, **fields)  # type: ignore[arg-type]


def reports(outputs: list[Output]) -> list[Report]:
    told = [output.message for output in outputs if isinstance(output, SendToDaemon)]
    return [message for message in told if isinstance(message, Report)]


def told(outputs: list[Output]) -> list[object]:
    """List what the starter is told."""
    return [output.message for output in outputs if isinstance(output, SendToStarter)]


def gone(outputs: list[Output]) -> ClaimEnd:
    (report,) = reports(outputs)
    assert report.state is ReportState.GONE
    assert report.end is not None
    return report.end
