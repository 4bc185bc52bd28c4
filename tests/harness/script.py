"""Script: events at instants, actions expected. An action that nobody expected fails the test.

After every event all invariants are checked, and Woken is delivered whenever the core wants it. At
the end everything is replayed from the recorded answers, with policies that must not be asked.
"""

from __future__ import annotations

import json
from dataclasses import replace
from typing import Any, TypeVar

from koala.core.digest import digest
from koala.core.invariants import check
from koala.core.model import events as ev
from koala.core.model.actions import (
    AcknowledgeClaim,
    Action,
    Announce,
    ArmClaim,
    ClaimProcessors,
    ReleaseClaim,
)
from koala.core.model.job import ArmNumber, ClaimEnd, EndKind, Job
from koala.core.model.parameters import Parameters
from koala.core.model.values import (
    ClaimId,
    FileName,
    Instant,
    JobId,
    SiteName,
    TransferId,
    UserName,
)
from koala.core.policy_api import NO_POLICIES, Policies
from koala.core.purge import purge_ended_jobs
from koala.core.scheduler import Scheduler
from koala.core.snapshot import load, save
from koala.policies import chosen
from koala.views.documents import job_document

WAKES_AT_ONCE_MAX = 300
Kind = TypeVar("Kind")
ANN = UserName("ann")
CALM = {"lead_min_s": 0.05, "lead_rounds": 1.0, "arm_wait_s": 0.0}
"""A lead that scripts can tell from round trips, and an Arm that is repeated at T."""


class Script:
    """A scheduler under test, its clock, and what it has asked for."""

    def __init__(self, policies: Policies | None = None, **parameters: Any) -> None:
        self.parameters = self._began_with = Parameters(**{**CALM, **parameters})
        self.policies = policies or chosen()
        self.scheduler = Scheduler(self.parameters, self.policies)
        self.now: Instant = 0.0
        self.open: list[tuple[Instant, Action]] = []
        self.said: list[Announce] = []
        self.journal: list[tuple[ev.Event, Instant, str]] = []
        self._ignored: tuple[type[Any], ...] = (Announce, AcknowledgeClaim)
        self.tell(ev.DaemonStarted(epoch=1))

    # --- the way of events ---

    def heed(self, *kinds: type[Any]) -> Script:
        """Actions of these kinds must be expected, too."""
        self._ignored = tuple(kind for kind in self._ignored if kind not in kinds)
        return self

    def ignore(self, *kinds: type[Any]) -> Script:
        """Actions of these kinds need not be expected."""
        self._ignored = (*self._ignored, *kinds)
        return self

    def tell(self, *events: ev.Event) -> Script:
        """Tell the core an event, now."""
        for event in events:
            self._require_nothing_open(f"before {event}")
            self._handle(event)
            self._wake(self.now)
        return self

    def tell_together(self, *events: ev.Event) -> Script:
        """Tell events of one instant, before the core is woken."""
        for event in events:
            self._handle(event)
        self._wake(self.now)
        return self

    def at(self, instant: Instant) -> Script:
        """Let time pass; the core is woken whenever it wants."""
        self._require_nothing_open(f"before {instant}")
        assert instant >= self.now, f"time does not run back from {self.now} to {instant}"
        self._wake(instant)
        self.now = instant
        return self

    def after(self, duration_s: float) -> Script:
        """Let time pass."""
        return self.at(self.now + duration_s)

    def _wake(self, until: Instant) -> None:
        wakes = 0
        while (at := self.scheduler.wake_at) is not None and at <= until:
            wakes = wakes + 1 if at <= self.now else 0
            assert wakes < WAKES_AT_ONCE_MAX, f"the core goes round in circles at {at}"
            self.now = max(self.now, at)
            self._handle(ev.Woken())

    def _handle(self, event: ev.Event) -> None:
        actions = self.scheduler.handle(event, self.now)
        if self.scheduler.is_changed:  # as the event loop does
            self.journal.append((event, self.now, json.dumps(self.scheduler.answers)))
        check(self.scheduler, self.now)
        self.said.extend(action for action in actions if isinstance(action, Announce))
        self.open.extend(
            (self.now, action) for action in actions if not isinstance(action, self._ignored)
        )

    # --- what is expected ---

    def expect(self, kind: type[Kind], *, at: Instant | None = None, **fields: Any) -> Kind:
        """The first open action of this kind with these fields; it is open no more."""
        for index, (instant, action) in enumerate(self.open):
            if isinstance(action, kind) and _has(action, fields):
                del self.open[index]
                assert at is None or abs(instant - at) < 1e-6, f"{action} came at {instant}"
                return action
        raise AssertionError(f"no {kind.__name__} with {fields} among {self._open_text()}")

    def expect_nothing(self) -> Script:
        """All that was asked for has been expected."""
        self._require_nothing_open("now")
        return self

    def drop(self) -> Script:
        """The test is about something else: what is open is let go."""
        self.open.clear()
        return self

    def kinds(self) -> list[str]:
        """The kinds of open actions, in order."""
        return [type(action).__name__ for _, action in self.open]

    def take(self, kind: type[Kind]) -> list[Kind]:
        """All open actions of a kind; they are open no more."""
        found: list[Kind] = []
        for _, action in self.open:
            if isinstance(action, kind):
                found.append(action)
        self.open = [(at, a) for at, a in self.open if not isinstance(a, kind)]
        return found

    def _require_nothing_open(self, when: str) -> None:
        assert not self.open, f"nobody expected, {when}: {self._open_text()}"

    def _open_text(self) -> str:
        return "; ".join(f"{at:g}: {action}" for at, action in self.open) or "nothing"

    def unchanged_by(self, *events: ev.Event) -> Script:
        """These events change nothing and cause nothing."""
        for event in events:
            before = digest(self.scheduler)
            actions = self.scheduler.handle(event, self.now)
            self.journal.append((event, self.now, json.dumps(self.scheduler.answers)))
            real = [a for a in actions if not isinstance(a, Announce | AcknowledgeClaim)]
            assert not real, f"{event} caused {real}"
            assert digest(self.scheduler) == before, f"{event} changed the state"
        return self

    # --- readings ---

    def job(self, name: str) -> Job:
        return self.scheduler.jobs[JobId(name)]

    def phase(self, name: str) -> str:
        return self.job(name).phase_name

    def picture(self, name: str) -> dict[str, Any]:
        return job_document(self.scheduler, JobId(name)).document

    def reason(self, name: str) -> str:
        return str(getattr(self.job(name).phase, "reason", ""))

    def story(self, name: str) -> str:
        return "\n".join(text for _, text in self.job(name).story)

    def placed_on(self, name: str) -> list[str | None]:
        attempt = self.job(name).attempt
        assert attempt is not None, f"{name} is not placed"
        return [member.site for member in attempt.members]

    # --- what agents say ---

    def report(
        self, site: str, idle: int, through: int | None = None, *, local: int = 0, gpus: int = 0
    ) -> Script:
        """A site's report that includes every claim asked there, unless said otherwise."""
        name = SiteName(site)
        asks = self.scheduler.sites[name].asks if through is None else through
        return self.tell(
            ev.SiteReported(
                site=name, idle=idle, through=asks, rtt_s=0.0, local=local, idle_gpus=gpus
            )
        )

    def grant(self, *claims: str) -> Script:
        return self.tell(
            *(ev.ClaimGranted(claim=ClaimId(claim), nonce=f"{claim}#1") for claim in claims)
        )

    def arm(self, claim: str, number: ArmNumber) -> Script:
        return self.tell(ev.ClaimArmed(claim=ClaimId(claim), number=number))

    def passed(self, *claims: str) -> Script:
        return self.tell(
            *(ev.ClaimPassed(claim=ClaimId(claim), passed_at=self.now) for claim in claims)
        )

    def gone(self, claim: str, kind: EndKind = EndKind.STOPPED, **more: Any) -> Script:
        end = ClaimEnd(kind=kind, **more)
        return self.tell(ev.ClaimGone(claim=ClaimId(claim), end=end))

    def exits(self, claim: str, *statuses: int) -> Script:
        return self.gone(claim, EndKind.EXITED, statuses=statuses or (0,), ended_at=self.now)

    def refuse(self, claim: str) -> Script:
        return self.gone(claim, EndKind.REFUSED)

    def fence(self, claim: str) -> Script:
        return self.tell(ev.ClaimFenced(claim=ClaimId(claim)))

    def disconnect(self, site: str) -> Script:
        return self.tell(ev.SiteDisconnected(site=SiteName(site)))

    def cancel(self, job: str) -> Script:
        return self.tell(ev.JobCancelRequested(job=JobId(job), by=ANN))

    def replica(self, file: str, site: str, size_bytes: int = 1000) -> Script:
        return self.tell(
            ev.ReplicaAdded(file=FileName(file), site=SiteName(site), size_bytes=size_bytes)
        )

    def fetched(self, transfer: str, size_bytes: int = 1000, took_s: float = 1.0) -> Script:
        return self.tell(
            ev.TransferFinished(transfer=TransferId(transfer), size_bytes=size_bytes, took_s=took_s)
        )

    def change(self, **parameters: Any) -> Script:
        """The daemon runs with other parameters from here on."""
        self.parameters = replace(self.parameters, **parameters)
        return self.tell(ev.ParametersChanged(parameters=self.parameters))

    # --- ways that many tests go ---

    def claimed(self, name: str) -> list[str]:
        """Expect a claim for components of the job; their ids."""
        asked = [a for _, a in self.open if isinstance(a, ClaimProcessors)]
        mine = [a.claim for a in asked if a.claim.startswith(f"{name}/")]
        for claim in mine:
            self.expect(ClaimProcessors, claim=claim)
        assert mine, f"no claim of {name} among {self._open_text()}"
        return list(mine)

    def armings(self, name: str) -> tuple[ArmNumber, list[str]]:
        """Expect that the job's members are armed under one number; it, and their claims."""
        arms = [a for _, a in self.open if isinstance(a, ArmClaim)]
        mine = [a for a in arms if a.claim.startswith(f"{name}/")]
        assert mine, f"no Arm of {name} among {self._open_text()}"
        for arm in mine:
            self.expect(ArmClaim, claim=arm.claim)
        numbers = {(a.number.epoch, a.number.counter) for a in mine}
        assert len(numbers) == 1, f"armed under {numbers}"
        return mine[0].number, [a.claim for a in mine]

    def started(self, name: str) -> list[str]:
        """From the claims on: grant, arm and release them all; the claims."""
        claims = self.claimed(name)
        self.grant(*claims)
        return self.released(name)

    def released(self, name: str) -> list[str]:
        """From the Arms on: all members arm and are released; their claims."""
        number, claims = self.armings(name)
        for claim in claims:
            self.arm(claim, number)
        for claim in claims:
            self.expect(ReleaseClaim, claim=claim, number=number)
        return claims

    def running(self, name: str) -> list[str]:
        """From the claims on to Running; the claims."""
        claims = self.started(name)
        self.passed(*claims)
        assert self.phase(name) == "Running", self.story(name)
        return claims

    # --- the end of a test ---

    def close(self) -> None:
        """Nothing is left open, and a replay gives the same state without asking a policy."""
        self._require_nothing_open("at the end")
        again = Scheduler(self._began_with, NO_POLICIES)
        for number, (event, now, answers) in enumerate(self.journal):
            if number == len(self.journal) // 2:
                again = load(json.loads(json.dumps(save(again))), NO_POLICIES)
            again.replay(event, now, json.loads(answers))
        assert digest(again) == digest(self.scheduler), "a replay gives another state"
        assert save(again) == save(self.scheduler), "what was saved on the way is another state"
        forgetful = Scheduler(self._began_with, NO_POLICIES)
        for event, now, answers in self.journal:
            forgetful.replay(event, now, json.loads(answers))
            purge_ended_jobs(forgetful, now + 1e-6, keep=0, keep_s=0.0, chunk=1)
        assert digest(forgetful) == digest(self.scheduler), "a job that is over was missed"


def _has(action: Action, fields: dict[str, Any]) -> bool:
    return all(getattr(action, name) == value for name, value in fields.items())
