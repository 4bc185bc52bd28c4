"""States of a claim at its site, and the claim as it is stored.

A state carries exactly the data that exists in it. States are stored with their tag, so they are
msgspec structs; their names and fields are a format on disk. Instants are of this machine's
CLOCK_BOOTTIME, except `passed_at`, which is in the daemon's time.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import TypeAlias

import msgspec

from koala.common.protocol import messages
from koala.common.protocol.names import ClaimId


class _State(msgspec.Struct, frozen=True, kw_only=True):
    """State that is stored with its tag. At `due_at` the machine acts on its own."""


class Asked(_State, frozen=True, tag="Asked"):
    """Submitted to the local manager, or about to be; no starter has checked in. `submit_at` is
    when a submission that failed for a while is tried again, and `gate_at` when its gate is; None:
    neither failed. `failures` are those in a row."""

    grace_until: float
    submit_at: float | None = None
    trouble: str = ""
    gate_at: float | None = None
    failures: int = 0


class Withdrawing(_State, frozen=True, tag="Withdrawing"):
    """Never bound and never will be; the local manager has not confirmed that nothing is left."""

    end: messages.ClaimEnd
    due_at: float


class Granted(_State, frozen=True, tag="Granted"):
    """Bound to the starter with this nonce, which holds at the barrier."""

    nonce: str


class Armed(_State, frozen=True, tag="Armed"):
    """Its starter has promised not to abort before D of this Arm."""

    nonce: str
    number: messages.ArmNumber


class Passed(_State, frozen=True, tag="Passed"):
    """Its starter has passed the barrier, at `passed_at` in the daemon's time."""

    nonce: str
    passed_at: float


class Stopping(_State, frozen=True, tag="Stopping"):
    """To be ended by a Stop or by the site; the starter was told to stop. With `fence_at` the batch
    system counts it as over without proof: then the starter's report, or this instant, ends it."""

    nonce: str
    passed_at: float | None
    end: messages.ClaimEnd
    due_at: float
    fence_at: float | None = None


class Ended(_State, frozen=True, tag="Ended"):
    """Its starter reported the end; the batch job is about to be over."""

    nonce: str
    passed_at: float | None
    end: messages.ClaimEnd
    due_at: float
    collects: bool


class Collecting(_State, frozen=True, tag="Collecting"):
    """No process is left; output files and logs are being collected."""

    nonce: str
    passed_at: float | None
    end: messages.ClaimEnd
    due_at: float


class Gone(_State, frozen=True, tag="Gone"):
    """No process, no batch job; the daemon has not acknowledged."""

    end: messages.ClaimEnd
    due_at: float
    nonce: str = ""
    passed_at: float | None = None


State: TypeAlias = (
    Asked | Withdrawing | Granted | Armed | Passed | Stopping | Ended | Collecting | Gone
)
BOUND = (Granted, Armed, Passed)


class Claim(msgspec.Struct, frozen=True, kw_only=True):
    """One claim as it is stored. `values` are the values that its processes put for the others,
    `address` and `hosts` the place at which its starter checked in, `began_at` when that started in
    the daemon's time, `resize` the newest order of its kind."""

    hold: messages.Hold
    secret: str
    state: State
    release: messages.Release | None = None
    resize: messages.Resize | None = None
    values: dict[str, str] = {}
    address: str = ""
    hosts: messages.Hosts = ()
    began_at: float | None = None

    @property
    def id(self) -> ClaimId:
        """The claim's name."""
        return self.hold.claim


def report_of(claim: Claim) -> messages.Report:
    """Return the report of a claim in its present state."""
    state = claim.state
    match state:
        case Asked() | Withdrawing():
            return messages.Report(claim=claim.id, state=messages.ReportState.ASKED)
        case Gone(end=end, nonce=nonce, passed_at=passed_at):
            return messages.Report(
                claim=claim.id,
                state=messages.ReportState.GONE,
                nonce=nonce,
                passed_at=passed_at,
                end=end,
                began_at=claim.began_at,
            )
        case Granted() | Armed() | Passed() | Stopping() | Ended() | Collecting():
            passed_at = passed_at_of(state)
            armed = state.number if isinstance(state, Armed) else None
            unpassed = messages.ReportState.GRANTED if armed is None else messages.ReportState.ARMED
            return messages.Report(
                claim=claim.id,
                state=unpassed if passed_at is None else messages.ReportState.PASSED,
                nonce=state.nonce,
                armed=armed,
                passed_at=passed_at,
                address=claim.address,
                hosts=claim.hosts,
                began_at=claim.began_at,
            )


def inventory_of(claims: Iterable[Claim]) -> list[messages.Report | messages.KvPut]:
    """Return all reports and all stored values: the start of a session."""
    reports: list[messages.Report | messages.KvPut] = []
    for claim in claims:
        reports.append(report_of(claim))
        if not isinstance(claim.state, Gone):
            reports += [
                messages.KvPut(claim=claim.id, request=0, name=name, value=value)
                for name, value in claim.values.items()
            ]
    return reports


def waits_of(claims: Iterable[Claim]) -> tuple[messages.Wait, ...]:
    """Return the waits of claims that the local queue has not taken so far, with the reason."""
    return tuple(
        messages.Wait(claim=claim.id, reason=claim.state.trouble)
        for claim in claims
        if isinstance(claim.state, Asked) and claim.state.submit_at is not None
    )


def due_at_of(state: State) -> float | None:
    """Return the instant of a claim's timer; None for a state without one."""
    match state:
        case Asked():
            dues = (state.grace_until, state.submit_at, state.gate_at)
            return min([at for at in dues if at is not None])
        case Withdrawing() | Stopping() | Ended() | Collecting() | Gone():
            return state.due_at
        case Granted() | Armed() | Passed():
            return None


def passed_at_of(state: State) -> float | None:
    """Return the instant at which a claim passed the barrier; None if it has not."""
    match state:
        case Passed() | Stopping() | Ended() | Collecting() | Gone():
            return state.passed_at
        case Asked() | Withdrawing() | Granted() | Armed():
            return None
