"""The probe of gates: two real batch jobs show what a gate does here.

The first is gated. The second comes after it, and starts when processors are idle: the scheduler
has then passed the first one over. Opened, the first must start, with the place that it had, and
before the second where that still waits. A wrong gate only loses the place of each claim that
waits, and nobody would see it.
"""

from __future__ import annotations

import asyncio
import secrets
from collections.abc import Awaitable, Callable, Iterable, Sequence
from contextlib import suppress
from dataclasses import replace
from pathlib import Path

from koala.common.runtime import clock
from koala.common.runtime.checkup import NotableError
from koala.errors import KoalaError, LocalManagerError
from koala_agent.lrm.dialect import Dialect, Gate, JobState, Order, job_name, script
from koala_agent.lrm.gate_probe_result import GateTrial, names_of, note_begin
from koala_agent.lrm.local_manager import Placeholder, RequestRefusedError
from koala_agent.transport.interface import Answer, Command

SHUT_S, OPEN_S = 120.0, 120.0
"""Longest waits: for the start of the job that comes after the gated one, and for that of the
gated one after it was opened."""
PLACE_S = 60.0
"""Longest wait for the scheduler to look at a gated job."""
DEAD = (JobState.STUCK, JobState.HELD)
LASTS = "exec sleep 45"
"""Program of both jobs."""
JOB_LIMIT_S = 60.0
MISSED_MAX = 3
"""Listings after which a job that is in none of them has ended."""
NO_GATE = (
    "it has no gate: claims cannot wait in its queue with their place kept, so a job over several"
    " sites starts only where its processors are idle at the time"
)
Say = Callable[[Command], Awaitable[Answer]]


def probe_job(folder: Path) -> Placeholder:
    """Make a batch job of one processor for a minute."""
    return Placeholder(
        claim=f"j0/1/0/{1 + secrets.randbelow(999_999)}",
        processors=1,
        time_limit_s=JOB_LIMIT_S,
        argv=("/bin/sh",),
        directory=folder,
        body=LASTS,
    )


def later_than(job: Placeholder) -> Placeholder:
    """Make the job that comes after the gated one."""
    return replace(job, claim=f"{job.claim}0")


class PlaceLostError(LocalManagerError):
    """A gate that does not do what it is for."""


class Trial:
    """Two jobs in front of a gate."""

    def __init__(self, dialect: Dialect, *, ask: Say, act: Say, poll_s: float, scope: str) -> None:
        """`ask` and `act` run commands; the jobs have names of this scope."""
        self._dialect = dialect
        self._ask = ask
        self._act = act
        self._poll_s = poll_s
        self._scope = scope
        self._states: dict[str, JobState] = {}  # of the jobs by number, as they were listed last
        self._missed: dict[str, int] = {}

    @property
    def running(self) -> int:
        """Number of its jobs that have processors."""
        return sum(state is JobState.RUNNING for state in self._states.values())

    async def try_all(
        self, gates: Sequence[Gate], usable: Iterable[Gate], job: Placeholder, folder: Path
    ) -> str:
        """Try the usable gates until one keeps the place, and write the result into the folder of
        the local manager's state. Raises PlaceLostError where they lose it, NotableError without
        one or where the queue was too long to see it, and LocalManagerError."""
        note_begin(folder)
        said: list[str] = []
        lost: list[str] = []
        kept = ""
        for gate in usable:
            try:
                said.append(f"{gate.name}: {await self.run(gate, job)}")
            except RequestRefusedError as error:
                said.append(f"{gate.name} is refused ({error})")
            except PlaceLostError as error:
                said.append(str(error))
                lost.append(gate.name)
            else:
                kept = gate.name
                said += filter(None, [gate.note])
                break
        if kept or lost:
            GateTrial(gate=kept, gates=names_of(gates), at=clock.unix_now(), lost=tuple(lost)).save(
                folder
            )
        if not kept:
            raise (PlaceLostError if lost else NotableError)("; ".join([NO_GATE, *said]))
        return "; ".join(said)

    async def run(self, gate: Gate, job: Placeholder) -> str:
        """Return what was seen. Raises LocalManagerError and NotableError."""
        self._states.clear()
        gated = await self._submit(replace(job, is_gated=True))
        try:
            if not gate.is_native:
                await self._order(gate, gate.settle or gate.shut, gated)
            later = await self._submit(later_than(job))
            return await self._watch(gate, gated, later)
        finally:
            for number in self._states:
                with suppress(KoalaError):
                    await self._act(self._dialect.withdraw(number))
            self._states.clear()

    async def _watch(self, gate: Gate, gated: str, later: str) -> str:
        began_at = clock.now()
        await self._until(lambda: self._has_started(gated) or self._has_started(later), SHUT_S)
        shut_s = clock.now() - began_at
        if self._has_started(gated):
            raise PlaceLostError(f"{gate.name}: job {gated} started while it was gated")
        was_passed = self._has_started(later)
        before = await self._place_in_time(gate, gated, later)
        await self._order(gate, gate.open, gated)
        opened_at = clock.now()
        await self._until(
            lambda: self._has_started(gated) or (not was_passed and self._has_started(later)),
            OPEN_S,
        )
        opened_s = clock.now() - opened_at
        after = await self._place(gate, gated)
        if before and after and before != after:
            raise PlaceLostError(f"{gate.name}: the place was lost: {before}, then {after}")
        has_started = self._has_started(gated)
        if not has_started and not was_passed and self._has_started(later):
            message = f"{gate.name}: job {later}, which came later, started before job {gated}"
            raise PlaceLostError(message)
        kept = f"{before} stayed" if before and after else "no place is told"
        if not has_started:
            raise NotableError(
                f"{gate.name}: job {gated} did not start within {shut_s:.0f} s while it was gated,"
                f" nor {opened_s:.0f} s after it was opened; {kept}: try again when processors are"
                " idle"
            )
        beside = f", while job {later} passed it" if was_passed else f"; job {later} waits behind"
        return (
            f"job {gated} did not start in {shut_s:.0f} s while it was gated{beside}; it started"
            f" {opened_s:.0f} s after it was opened; {kept}"
        )

    async def _submit(self, job: Placeholder) -> str:
        name, text = job_name(job.claim, scope=self._scope), script(job, scope=self._scope)
        answer = await self._act(self._dialect.submit(job, name=name, script=text))
        number = self._dialect.read_submitted(answer)
        self._states[number] = JobState.QUEUED
        return number

    async def _order(self, gate: Gate, order: Order, number: str) -> None:
        gate.read(await self._act(order([number])))

    async def _place(self, gate: Gate, number: str) -> str:
        if gate.place is None:
            return ""
        question = gate.place(number)
        return question.read(await self._ask(question.command))

    async def _place_in_time(self, gate: Gate, gated: str, later: str) -> str:
        """Return the place of the gated job, which the scheduler may not have looked at yet. Raises
        LocalManagerError where the other has one, and the gated job gets none."""
        until = clock.now() + PLACE_S
        while not (place := await self._place(gate, gated)) and clock.now() < until:
            if not await self._place(gate, later):
                return ""
            await asyncio.sleep(self._poll_s)
        if not place and await self._place(gate, later):
            raise PlaceLostError(
                f"{gate.name}: job {later} got a place in the queue, and job {gated}, which was"
                " gated, got none before it: claims that wait here lose theirs"
            )
        return place

    def _has_started(self, number: str) -> bool:
        return self._states[number] is not JobState.QUEUED

    async def _until(self, is_seen: Callable[[], bool], limit_s: float) -> None:
        """Look at the listing until something is seen, or for so long. One that is missing often
        has ended."""
        until = clock.now() + limit_s
        while not is_seen() and clock.now() < until:
            jobs = self._dialect.read_jobs(await self._ask(self._dialect.list_jobs()))
            listed = {job.number: job.state for job in jobs}
            for number in self._states:
                self._missed[number] = 0 if number in listed else self._missed.get(number, 0) + 1
                if number in listed:
                    self._states[number] = listed[number]
                elif self._missed[number] >= MISSED_MAX:
                    self._states[number] = JobState.ENDED
            stuck = [number for number, state in self._states.items() if state in DEAD]
            if stuck:
                raise LocalManagerError(f"job {stuck[0]} can never start: ask the batch system why")
            if not is_seen():
                await asyncio.sleep(self._poll_s)
