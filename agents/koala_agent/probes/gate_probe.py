"""The gate probe of `koala-agent doctor --probe`: two real batch jobs show what a gate does here.

The first is gated. The second comes after it, and starts when processors are idle: the scheduler
has then passed the first one over. Opened, the first must start, with the place that it had, and
before the second where that still waits. A wrong gate only loses the place of each claim that
waits, and nobody would see it.
"""

from __future__ import annotations

import asyncio
import secrets
from collections.abc import Callable
from contextlib import suppress
from dataclasses import replace
from pathlib import Path

from koala.common.runtime import clock
from koala.common.runtime.checkup import NotableError
from koala.errors import KoalaError, LocalManagerError
from koala_agent.assembly import dialect_of
from koala_agent.config_tables import Config
from koala_agent.lrm.batch.gate_trials import GateTrial, describe_trial, names_of, read_trial
from koala_agent.lrm.dialect import Dialect, Gate, JobState, Order, job_name, script
from koala_agent.lrm.local_manager import Placeholder, RequestRefusedError
from koala_agent.probes.probe_job import POLLS_MIN, a_placeholder
from koala_agent.site_access import reached
from koala_agent.state_folder import lrm_folder
from koala_agent.transport.interface import CommandRunner

SHUT_S, OPEN_S = 120.0, 120.0
"""Longest waits: for the start of the job that comes after the gated one, and for that of the
gated one after it was opened."""
PLACE_S = 60.0
"""Longest wait for the scheduler to look at a gated job."""
DEAD = (JobState.STUCK, JobState.HELD)
LASTS = "exec sleep 45"
"""Program of both jobs."""
NO_GATE = (
    "it has no gate: claims cannot wait in its queue with their place kept, so a job over several"
    " sites starts only where its processors are idle at the time"
)


async def probe_gate(config: Config) -> str:
    """Try the gate in force with two jobs. Raises LocalManagerError where it loses the place, and
    NotableError where there is none, or the queue was too long to see it."""
    if config.system.is_emulated:
        return "an emulated queue keeps the places of gated claims: nothing to probe"
    dialect = dialect_of(config)
    async with reached(config) as site:
        trial = Trial(dialect, site, poll_s=config.lrm.poll_s)
        gates = dialect.read_gates(tuple([await site.run(one) for one in dialect.gates()]))
        refusals = []
        for gate in gates:
            if not gate.keeps_place:
                continue
            try:
                seen = await trial.run(gate, a_placeholder(config, body=LASTS))
            except RequestRefusedError as error:
                refusals.append(f"{gate.name} is refused ({error})")
            except PlaceLostError:
                _save(config, gate, gates, is_kept=False)
                raise
            else:
                _save(config, gate, gates, is_kept=True)
                return "; ".join([f"{gate.name}: {seen}", *filter(None, [gate.note]), *refusals])
    raise NotableError("; ".join([NO_GATE, *refusals]))


async def recorded_gate(config: Config) -> str:
    """Say which gate is in force, and what the last probe saw. Raises NotableError where there is
    none, or none was tried."""
    if config.system.is_emulated:
        return "an emulated queue keeps the places of gated claims"
    dialect = dialect_of(config)
    async with reached(config) as site:
        gates = dialect.read_gates(tuple([await site.run(one) for one in dialect.gates()]))
    gate = next((one for one in gates if one.keeps_place), None)
    if gate is None:
        raise NotableError(NO_GATE)
    known = names_of(gates)
    trial = read_trial(lrm_folder(Path(config.agent.state_dir)))
    words = f"{gate.name} ({describe_trial(trial, known)})"
    if trial is None or trial.gates != known or not trial.is_kept:
        raise NotableError(words)
    return words


def _save(config: Config, gate: Gate, gates: tuple[Gate, ...], *, is_kept: bool) -> None:
    trial = GateTrial(gate=gate.name, gates=names_of(gates), at=clock.unix_now(), is_kept=is_kept)
    trial.save(lrm_folder(Path(config.agent.state_dir)))


class PlaceLostError(LocalManagerError):
    """A gate that does not do what it is for."""


class Trial:
    """Two jobs in front of a gate."""

    def __init__(self, dialect: Dialect, site: CommandRunner, *, poll_s: float) -> None:
        self._dialect = dialect
        self._site = site
        self._poll_s = poll_s
        self._scope = f"doctor{secrets.token_hex(2)}"
        self._states: dict[str, JobState] = {}  # of the jobs by number, as they were listed last
        self._missed: dict[str, int] = {}

    async def run(self, gate: Gate, job: Placeholder) -> str:
        """Return what was seen. Raises LocalManagerError and NotableError."""
        self._states.clear()
        gated = await self._submit(replace(job, is_gated=True))
        try:
            if not gate.is_native:
                await self._order(gate, gate.settle or gate.shut, gated)
            later = await self._submit(replace(job, claim=f"{job.claim}0"))
            return await self._watch(gate, gated, later)
        finally:
            for number in self._states:
                with suppress(KoalaError):
                    await self._site.run(self._dialect.withdraw(number))

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
        answer = await self._site.run(self._dialect.submit(job, name=name, script=text))
        number = self._dialect.read_submitted(answer)
        self._states[number] = JobState.QUEUED
        return number

    async def _order(self, gate: Gate, order: Order, number: str) -> None:
        gate.read(await self._site.run(order([number])))

    async def _place(self, gate: Gate, number: str) -> str:
        if gate.place is None:
            return ""
        question = gate.place(number)
        return question.read(await self._site.run(question.command))

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
            jobs = self._dialect.read_jobs(await self._site.run(self._dialect.list_jobs()))
            listed = {job.number: job.state for job in jobs}
            for number in self._states:
                self._missed[number] = 0 if number in listed else self._missed.get(number, 0) + 1
                if number in listed:
                    self._states[number] = listed[number]
                elif self._missed[number] >= POLLS_MIN:
                    self._states[number] = JobState.ENDED
            stuck = [number for number, state in self._states.items() if state in DEAD]
            if stuck:
                raise LocalManagerError(f"job {stuck[0]} can never start: ask the batch system why")
            if not is_seen():
                await asyncio.sleep(self._poll_s)
