"""Play whole lives of a grid with a hostile agent: its messages, true ones and lies in turn, come
through the real codec in the middle of jobs that are placed, armed, released and running.

What must hold: the core's invariants after every event; nothing that is said of another site's
claims has an effect; each event has its place in the journal, whose replay gives the same state, as
does what is saved of it; and there are words for whatever came of each job.
"""

from __future__ import annotations

import json
from dataclasses import dataclass, field
from random import Random
from typing import Any, TypeAlias

import msgspec
from google.protobuf.message import DecodeError

from koala.cli.output import clean_lines
from koala.common.protocol.codec import FROM_AGENT
from koala.common.protocol.messages import (
    FileFound,
    FileRemoved,
    Register,
    Report,
    SiteFigures,
    TransferFailed,
    TransferFinished,
)
from koala.common.protocol.versions import PROTOCOL
from koala.common.wire.v1 import link_pb2 as pb
from koala.core.digest import digest
from koala.core.invariants import check as check_state
from koala.core.model import actions
from koala.core.model import events as ev
from koala.core.model.claim import Armed, Asked, Claim, Granted, Passed, Released, Stopped
from koala.core.model.job import ArmNumber, EndKind
from koala.core.model.parameters import Parameters
from koala.core.model.values import ClaimId, JobId, SiteName, UserName
from koala.core.scheduler import Scheduler
from koala.core.snapshot import load, save
from koala.daemon.agents import reports
from koala.daemon.agents.replica_reports import ReplicaReports
from koala.daemon.storage.records import decode_event, encode_event
from koala.errors import SpecError
from koala.policies import chosen
from koala.views.documents import whole_document
from koala.views.explain import why
from tests.fuzz.hostile_values import utf8
from tests.fuzz.links import an_upward_message
from tests.fuzz.target import Target, require_readable
from tests.harness.builders import FREE, HIGH, LOOSE, a_component, a_job, a_site

Case: TypeAlias = str
"""The seed of a life: what is said next depends on what has come of what was said before."""

ROGUE, OTHERS = SiteName("delft"), (SiteName("leiden"), SiteName("utrecht"))
STEPS = 40
JOBS = (
    lambda name: a_job(name, 4, 4),
    lambda name: a_job(name, a_component(4, "delft"), a_component(2, "leiden"), retries=2),
    lambda name: a_job(name, 2, 2, 2, quorum=2),
    lambda name: a_job(name, 3, a_component(3, start_type=LOOSE), priority=HIGH),
    lambda name: a_job(name, a_component(1, start_type=FREE), 2, rerun=False),
    lambda name: a_job(name, 8, priority=HIGH, file="data"),
    lambda name: a_job(name, 6, max_hold_s=30.0),
)
STATES = (
    pb.CLAIM_STATE_GRANTED, pb.CLAIM_STATE_ARMED, pb.CLAIM_STATE_PASSED, pb.CLAIM_STATE_GONE,
    pb.CLAIM_STATE_ASKED,
)  # fmt: skip


@dataclass(slots=True)
class Life:
    """A grid, and the journal of what has happened to it."""

    random: Random
    scheduler: Scheduler = field(default_factory=lambda: Scheduler(Parameters(), chosen()))
    replicas: ReplicaReports = field(default_factory=ReplicaReports)
    now: float = 0.0
    jobs: int = 0
    armed: dict[ClaimId, ArmNumber] = field(default_factory=dict)
    journal: list[tuple[str, str, float, str]] = field(default_factory=list)

    def happen(self, event: ev.Event) -> None:
        kind, body = type(event).__name__, encode_event(event)
        assert decode_event(kind, body) == event
        for action in self.scheduler.handle(event, self.now):
            if isinstance(action, actions.ArmClaim):
                self.armed[action.claim] = action.number
        check_state(self.scheduler, self.now)
        self.journal.append((kind, body, self.now, json.dumps(self.scheduler.answers)))

    def wait(self, seconds: float) -> None:
        until = self.now + seconds
        while (at := self.scheduler.wake_at) is not None and at <= until:
            self.now = max(self.now, at)
            self.happen(ev.Woken())
        self.now = until

    def hear(self, site: SiteName, data: bytes) -> None:
        """Do with a message what the daemon does with what a live session says."""
        try:
            message = FROM_AGENT.decode(pb.FromAgent.FromString(data))
        except DecodeError:
            return
        except SpecError as error:
            require_readable(str(error))
            return
        if isinstance(message, Register):
            if message.protocol == PROTOCOL and message.site == site:
                for event in reports.registration_events(
                    message, (), self.scheduler, self.replicas, self.now
                ):
                    self.happen(event)
        elif isinstance(message, FileFound | FileRemoved):
            for event in self.replicas.events_of(message, site, self.scheduler):
                self.happen(event)
        elif isinstance(message, Report | SiteFigures | TransferFinished | TransferFailed):
            is_foreign = isinstance(message, Report) and reports.is_foreign(
                message, site, self.scheduler
            )
            for event in reports.report_events(
                message, site, self.scheduler, rtt_s=0.0, now=self.now
            ):
                assert not is_foreign, f"{event} of another site's claim"
                self.happen(event)

    def check(self) -> None:
        for job in self.scheduler.jobs:
            for words in why(self.scheduler, job, self.now):
                require_readable(clean_lines(words))  # as it is printed
            found = whole_document(self.scheduler, job, self.now)
            json.dumps(msgspec.to_builtins(found, enc_hook=float), allow_nan=False)
        again = Scheduler(Parameters(), chosen())
        for kind, body, at, answers in self.journal:
            again.replay(decode_event(kind, body), at, json.loads(answers))
        assert digest(again) == digest(self.scheduler), "the replay gives another state"
        kept = json.loads(json.dumps(save(self.scheduler)))
        assert digest(load(kept, chosen())) == digest(self.scheduler), "so does what was saved"


def begun(random: Random) -> Life:
    life = Life(random)
    life.happen(ev.DaemonStarted(epoch=1))
    for site in (ROGUE, *OTHERS):
        life.happen(a_site(site, 8))
    for _ in range(random.choice((1, 2, 4))):
        submit(life)
    return life


def submit(life: Life) -> None:
    life.jobs += 1
    life.happen(life.random.choice(JOBS)(f"j{life.jobs}"))


def step(life: Life) -> None:
    random = life.random
    claims = [*life.scheduler.ledger.values()]
    match random.randrange(16):
        case 0:
            submit(life)
        case 1:
            job = JobId(f"j{random.randrange(life.jobs) + 1}")
            life.happen(ev.JobCancelRequested(job=job, by=UserName("ann")))
        case 2:
            life.happen(ev.SiteDisconnected(site=random.choice((ROGUE, *OTHERS))))
        case 3:
            life.happen(a_site(random.choice((ROGUE, *OTHERS)), random.choice((2, 8, 16))))
        case 4 | 5 | 6:
            life.wait(random.choice((0.01, 0.5, 5.0, 61.0, 700.0)))
        case 7:
            life.hear(ROGUE, an_upward_message(random))
        case 8 | 9 if claims:
            life.hear(ROGUE, _said(a_lie(life, random.choice(claims))))
        case _ if claims:
            claim = random.choice(claims)
            life.hear(claim.site, _said(the_truth(life, claim)))
        case _:
            life.wait(1.0)


def the_truth(life: Life, claim: Claim) -> pb.ClaimReport:
    """Return what an agent would say next."""
    said = pb.ClaimReport(claim=claim.id, nonce="n", address="10.0.0.1")
    match claim.phase:
        case Asked():
            said.state = pb.CLAIM_STATE_GRANTED
        case Granted() | Armed() if claim.id in life.armed:
            said.state = pb.CLAIM_STATE_ARMED
            _number(said, life.armed[claim.id])
        case Released():
            said.state = pb.CLAIM_STATE_PASSED
            said.passed_at = life.now
        case Passed(passed_at=passed_at):
            said.passed_at = passed_at
            _end(said, EndKind.EXITED, life.random.choice((0, 0, 0, 1)), life.now)
        case Stopped():
            _end(said, EndKind.STOPPED, -15, life.now)
        case _:
            said.state = pb.CLAIM_STATE_GRANTED
    return said


def a_lie(life: Life, claim: Claim) -> pb.ClaimReport:
    """Whatever can be said of a claim, near what is true."""
    random = life.random
    said = pb.ClaimReport(claim=claim.id, state=random.choice(STATES))
    said.nonce = random.choice(("n", "m", "", utf8(random)[:40]))
    if random.randrange(2) and claim.id in life.armed:
        true = life.armed[claim.id]
        _number(
            said,
            ArmNumber(epoch=true.epoch, counter=max(0, true.counter + random.choice((-1, 0, 1)))),
        )
    if random.randrange(2):
        said.passed_at = random.choice((life.now, 1e-300, life.now + 1e6, -1e308, float("nan")))
    if said.state == pb.CLAIM_STATE_GONE or random.randrange(4) == 0:
        statuses = random.choice(((), (0,), (0,) * 50, (1, 0), (-9,), (255, -(2**31))))
        kind = random.choice((*EndKind, "over"))
        at = random.choice((0.0, life.now, life.now - 1e6, life.now + 1e9))
        said.end.CopyFrom(pb.End(kind=kind, reason=utf8(random), statuses=statuses, ended_at=at))
        said.end.cpu_s = random.choice((0.0, 1e300, 5.0))
        said.end.memory_bytes = random.choice((0, 2**63, 5))
    return said


def _number(said: pb.ClaimReport, armed: ArmNumber) -> None:
    said.armed.epoch, said.armed.counter = armed.epoch, armed.counter


def _end(said: pb.ClaimReport, kind: EndKind, status: int, at: float) -> None:
    said.state = pb.CLAIM_STATE_GONE
    said.end.CopyFrom(pb.End(kind=kind, statuses=[status], ended_at=at))


def _said(report: pb.ClaimReport) -> bytes:
    return pb.FromAgent(claim=report).SerializeToString()


def a_case(random: Random) -> Case:
    return str(random.getrandbits(64))


def check(case: Case) -> None:
    life: Any = begun(Random(case))
    for _ in range(STEPS):
        step(life)
    life.wait(10_000.0)
    life.check()


TARGETS = (Target(name="life", make=a_case, check=check, share=0.03),)
