"""Whatever the table is told in whatever order, with restarts between: what it never does.

A model beside it keeps only what outsiders saw: reports, submissions, what the starter was told.
"""

from __future__ import annotations

from functools import partial

import msgspec
from hypothesis import strategies as st

from koala.common.protocol.messages import (
    Acknowledge,
    ArmNumber,
    ClaimEnd,
    EndKind,
    KvPut,
    Release,
    Report,
    ReportState,
    Stop,
)
from koala.common.protocol.names import ClaimId
from koala_agent.claims.events import (
    Adopted,
    BatchEnded,
    BatchFound,
    BatchUnlisted,
    CheckedIn,
    Collected,
    Event,
    Forget,
    GateFailed,
    Output,
    SendToDaemon,
    SendToStarter,
    SetGate,
    StarterArmed,
    StarterEnded,
    StarterLost,
    StarterPassed,
    StarterSaid,
    StoreClaim,
    Submit,
    SubmitFailed,
    WantedComplete,
    Withdraw,
    Woken,
)
from koala_agent.claims.folder import StarterRecord
from koala_agent.claims.settings import LeaseTimes, Limits
from koala_agent.claims.states import Asked, Claim, Gone, Withdrawing
from koala_agent.claims.table import ClaimTable
from koala_agent.lrm.local_manager import EndCause
from tests.agent.claims import table_script
from tests.harness.properties import holds_for

CLAIMS = (ClaimId("j1/1/0/1"),)
NONCES = ("n1", "n2")
NUMBER = ArmNumber(epoch=1, counter=1)
ENDS = (
    ClaimEnd(kind=EndKind.EXITED, statuses=(0,)),
    ClaimEnd(kind=EndKind.EXITED, statuses=(-15,)),
    ClaimEnd(kind=EndKind.LEASE),
    ClaimEnd(kind=EndKind.SITE),
)
RANK = {
    ReportState.ASKED: 0,
    ReportState.GRANTED: 1,
    ReportState.ARMED: 2,
    ReportState.PASSED: 3,
    ReportState.GONE: 4,
}

claims = st.sampled_from(CLAIMS)
nonces = st.sampled_from(NONCES)
ends = st.sampled_from(ENDS)
maybe = st.none() | st.just(100.0)


a_hold = partial(table_script.a_hold, output_files=("a",))

orders = st.one_of(
    st.builds(a_hold, claims, is_granted=st.booleans(), is_gated=st.booleans()),
    st.builds(Stop, claim=claims),
    st.builds(Acknowledge, claim=claims),
    st.builds(Release, claim=claims, number=st.just(NUMBER), release_at=st.just(100.0)),
    st.builds(WantedComplete, claims=st.frozensets(claims)),
)
starters = st.one_of(
    st.builds(CheckedIn, claim=claims, nonce=nonces, passed_at=maybe, end=st.none() | ends),
    st.builds(CheckedIn, claim=claims, nonce=nonces),
    st.builds(StarterArmed, claim=claims, nonce=nonces, number=st.just(NUMBER)),
    st.builds(StarterPassed, claim=claims, nonce=nonces, passed_at=st.just(100.0)),
    st.builds(StarterEnded, claim=claims, nonce=nonces, end=ends),
    st.builds(StarterLost, claim=claims, nonce=nonces),
    st.builds(
        StarterSaid,
        nonce=nonces,
        message=st.builds(
            KvPut,
            claim=claims,
            request=st.integers(1, 3),
            name=st.just("a"),
            value=st.sampled_from(["x", "y"]),
        ),
    ),
)
records = st.none() | st.builds(StarterRecord, nonce=nonces, passed_at=maybe, end=st.none() | ends)
sites = st.one_of(
    st.builds(
        SubmitFailed,
        claim=claims,
        reason=st.just("no"),
        is_transient=st.booleans(),
        kind=st.sampled_from([EndKind.FAILED, EndKind.REFUSED, EndKind.UNEXECUTABLE]),
    ),
    st.builds(GateFailed, claim=claims),
    st.builds(BatchUnlisted, claim=claims, record=records),
    st.builds(BatchFound, claim=claims),
    st.builds(BatchEnded, claim=claims, cause=st.sampled_from(list(EndCause)), record=records),
    st.builds(Collected, claim=claims, reason=st.sampled_from(["", "missing"])),
)
RESTART = "restart"
booleans = st.booleans()
holds = st.builds(a_hold, claims, is_granted=st.just(False), waits=booleans, is_gated=booleans)
steps: st.SearchStrategy[tuple[float, Event | str]] = st.tuples(
    st.sampled_from([0.0, 0.1, 1.0, 6.0, 400.0]),
    st.one_of(holds, orders, starters, starters, sites, st.just(Woken()), st.just(RESTART)),
)


class Model:
    """Keep what outsiders saw of the claims, and check what must hold of it."""

    def __init__(self) -> None:
        self.stored: dict[ClaimId, Claim] = {}
        self.nonce: dict[ClaimId, str] = {}
        self.rank: dict[ClaimId, int] = {}
        self.over: list[ClaimId] = []
        self.forgotten: list[ClaimId] = []
        self.gated: dict[ClaimId, bool] = {}  # as the local manager was told last

    def tell(self, event: Event) -> None:
        if isinstance(event, BatchEnded | BatchUnlisted):
            self.over.append(event.claim)
        if isinstance(event, SubmitFailed) and not event.is_transient:
            self.over.append(event.claim)

    def see(self, outputs: list[Output]) -> None:
        writes = [output for output in outputs if isinstance(output, StoreClaim | Forget)]
        for write in writes:
            if isinstance(write, StoreClaim):
                # A batch job of it that is found after all is ended, and that is all.
                is_stray = isinstance(write.claim.state, Withdrawing | Gone)
                is_back = write.claim.id in self.forgotten and not is_stray
                assert not is_back, "a forgotten claim came back"
                self.stored[write.claim.id] = write.claim
            else:
                del self.stored[write.claim]
                self.forgotten.append(write.claim)
        for output in outputs:
            self._see(output)
        for claim in self.stored.values():
            if isinstance(claim.state, Asked):
                assert self.gated[claim.id] == claim.hold.is_gated, "not told to the local manager"

    def _see(self, output: Output) -> None:
        match output:
            case SendToDaemon(message=Report() as report):
                self._hear(report)
            case Submit(claim=claim):
                # Something may be left of it from now on.
                self.over = [name for name in self.over if name != claim.id]
                self.gated.setdefault(claim.id, claim.hold.is_gated)
            case SetGate(claim=claim_id, is_gated=is_gated):
                assert isinstance(self.stored[claim_id].state, Asked), "it is bound, or withdrawn"
                self.gated[claim_id] = is_gated
            case SendToStarter(claim=claim_id, nonce=nonce, message=Adopted() | Release()):
                assert self.nonce.get(claim_id) == nonce, "a second starter was taken"
            case Withdraw(claim=claim_id):
                assert claim_id in self.stored
            case _:
                pass

    def _hear(self, report: Report) -> None:
        claim = report.claim
        if report.end is not None and report.end.kind is EndKind.UNKNOWN:
            return
        if claim in self.forgotten:
            return  # only a stray batch job is left to be told of
        rank = RANK[report.state]
        is_back_to_granted = rank == 1 and self.rank.get(claim) == 2  # stopped while armed
        assert rank >= self.rank.get(claim, 0) or is_back_to_granted, "a claim went back"
        self.rank[claim] = rank
        if report.nonce:
            assert self.nonce.setdefault(claim, report.nonce) == report.nonce, "bound twice"
        if report.state is ReportState.GONE:
            assert claim in self.over, "gone, and nobody said that nothing is left"
        assert claim in self.stored, "told before it was written"


@holds_for(st.lists(steps, min_size=5, max_size=40), few=75, many=1_000)
def test_a_table_keeps_its_promises(script: list[tuple[float, Event | str]]) -> None:
    model, now = Model(), 0.0
    limits = Limits()
    table = ClaimTable(limits=limits, leases=LeaseTimes(), now=now)
    began: list[tuple[float, Event | str]] = [
        (0.0, a_hold(CLAIMS[0], is_granted=False)),
        (0.0, CheckedIn(claim=CLAIMS[0], nonce=NONCES[0])),
    ]
    for step_s, event in [*began[: len(script) % 3], *script]:
        now += step_s
        if isinstance(event, str):
            body = msgspec.json.encode(list(model.stored.values()))
            table = ClaimTable(
                limits=limits,
                leases=LeaseTimes(),
                now=now,
                restored=msgspec.json.decode(body, type=list[Claim]),
                forgotten=model.forgotten,
            )
            continue
        model.tell(event)
        model.see(table.handle(event, now))
        assert {claim.id for claim in table.claims.values()} == set(model.stored)
        wake_at = table.wake_at
        if isinstance(event, Woken):
            assert wake_at is None or wake_at > now, "a timer that never moves on"
    ends_well(model, table, now)


def ends_well(model: Model, table: ClaimTable, now: float) -> None:
    """Check that nothing is left when all is stopped and the local manager confirms: at once where
    no starter is connected, and after its lease where a machine did not answer."""
    now += 2 * LeaseTimes().run_lease_s
    for claim in CLAIMS:
        for nonce in NONCES:
            model.see(table.handle(StarterLost(claim=claim, nonce=nonce), now))
        model.see(table.handle(Stop(claim=claim), now))
        for event in (
            BatchEnded(claim=claim, cause=EndCause.WITHDRAWN),
            Collected(claim=claim),
            Acknowledge(claim=claim),
        ):
            model.tell(event)
            model.see(table.handle(event, now))
    assert table.claims == {}
    assert table.wake_at is None
