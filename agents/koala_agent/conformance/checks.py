"""Checks of a batch system and its dialect, one for each point of the contract.

A check returns what it saw, in words. It raises NotableError where Koala works, but tells its users
less, and LocalManagerError where a claim would be lost, run twice, or misjudged.
"""

from __future__ import annotations

import asyncio
import math
import signal
from collections.abc import Awaitable, Callable, Sequence
from contextlib import suppress
from dataclasses import replace

from koala.common.runtime import clock
from koala.common.runtime.checkup import NotableError
from koala.errors import KoalaError, LocalManagerError
from koala_agent.conformance.finding_texts import end_text, jobs_text, listed_text
from koala_agent.conformance.trial_system import (
    CLAIM,
    LATER_CLAIM,
    OTHER_CLAIM,
    Bench,
    BenchSettings,
    expect,
)
from koala_agent.lrm.dialect import LATE_S, Dialect, JobState
from koala_agent.lrm.local_manager import CANCELLED, EndCause, Ended, Listed, Queued, Running
from koala_agent.transport.interface import CommandRunner

Check = Callable[[Bench], Awaitable[str]]
SHORT = 'echo ran; exec sleep "$1"'
ODD = ("it's  $1", 'a "b" \\ `c` $(d) ${HOME}', "two\nlines", "naïve ☃", "", "*", "-n", "#!%&;|<>~")
"""Words that a shell, or a careless dialect, would change."""
ODD_NAMES = ("two words", 'it\'s; "odd" | $HOME', "naïve", "0", "-", "x" * 150, "koala-", "a\nb")
OVER_LIMIT_S = 180.0
"""How long after its time limit a job may be ended: many batch systems look once a minute."""
ROUNDED_MAX_S = 300.0
"""A time limit that is kept as one of hours is not waited for, unless it is one of hours itself."""
LIMITLESS_S = 1e9
"""Time limits up to here must make different submissions."""
COUNTED_S = "5"
"""How long jobs run that are counted meanwhile, by a batch system that may be slow."""
NEAR_S = 0.01
BOOKED_S = 20.0
"""How long before its start a job is booked."""


async def lists_by_name(bench: Bench) -> str:
    """Check that a job is listed under its name once its submission has returned: without, a claim
    whose submission got no answer would run twice."""
    seen = [await _listed_by_name(bench, claim) for claim in (CLAIM, bench.longest_claim)]
    return f"{seen[0]}; names of {len(bench.name(bench.longest_claim))} characters are listed whole"


async def _listed_by_name(bench: Bench, claim: str) -> str:
    number, name = await bench.submit(bench.job(claim)), bench.name(claim)
    listed = await bench.listed()
    jobs = [job for job in listed if job.name == name]
    if not jobs:
        others = jobs_text(job for job in listed if job.number == number)
        raise LocalManagerError(
            f"job {number} is not listed under its name {name}, right after its submission; under"
            f" its number: {others}"
        )
    numbers = ", ".join(job.number for job in jobs)
    expect(numbers == number, f"submitted as job {number}, listed as {numbers}")
    state = jobs[0].state
    expect(state in (JobState.QUEUED, JobState.RUNNING), f"job {number} is {state} at once")
    return f"job {number} is {state} as {name}"


async def runs_as_told(bench: Bench) -> str:
    """Check folder, arguments, output and exit status of a job."""
    job = bench.job(CLAIM, "sh", "-c", 'pwd; echo "$KOALA_CLAIM" "$1"; exit 3', "-", "it's  $1")
    async with bench.serving() as (manager, witness):
        await manager.submit(job)
        end = await witness.ended(CLAIM)
    await bench.has_written(job, f"{job.directory}\n{CLAIM} it's  $1\n".encode())
    return _judged(end, EndCause.EXITED, 3)


async def keeps_text(bench: Bench) -> str:
    """Check that odd arguments and variables reach a job byte for byte."""
    names = [f"KOALA_ODD_{number}" for number in range(len(ODD))]
    shown = " ".join(f'"${name}"' for name in names)
    program = f'printf "<%s>" "$@"; printf "<%s>" {shown}'
    environment = tuple(zip(names, ODD, strict=True))
    job = bench.job(CLAIM, "sh", "-c", program, "-", *ODD, environment=environment)
    async with bench.serving() as (manager, witness):
        await manager.submit(job)
        await witness.ended(CLAIM)
    await bench.has_written(job, "".join(f"<{word}>" for word in ODD * 2).encode())
    return f"{len(ODD)} odd words as arguments and as variables"


async def tells_signal(bench: Bench) -> str:
    """Check that the end by a signal of a job's own is told as such."""
    async with bench.serving() as (manager, witness):
        await manager.submit(bench.job(CLAIM, "sh", "-c", "kill -SEGV $$"))
        return _judged(await witness.ended(CLAIM), EndCause.EXITED, -signal.SIGSEGV)


async def runs_once(bench: Bench) -> str:
    """Check that a claim runs once, however often it is submitted."""
    job = bench.job(CLAIM, "sh", "-c", SHORT, "-", COUNTED_S)
    async with bench.serving() as (manager, witness):
        await asyncio.gather(*(manager.submit(job) for _ in range(5)))
        jobs = [listed.number for listed in await bench.alive()]
        expect(len(jobs) <= 1, f"one submission made {len(jobs)} jobs: {', '.join(jobs)}")
        await witness.ended(CLAIM)
        await manager.submit(job)
        _expect_listed(await manager.listing(), Ended)
    await bench.has_written(job, b"ran\n")
    return "submitted six times, run once"


async def finds_lost_answer(bench: Bench) -> str:
    """Check that a submission whose answer was lost is found by its name by the next agent, and is
    not repeated."""
    job = bench.job(CLAIM, "sh", "-c", SHORT, "-", "1")
    async with bench.serving(lose_answer_to=bench.submission(job)) as (manager, _):
        try:
            await manager.submit(job)
        except LocalManagerError as error:
            if not error.transient:
                raise
    async with bench.serving() as (manager, witness):
        await manager.submit(job)
        await witness.ended(CLAIM)
    await bench.has_written(job, b"ran\n")
    return "its answer was lost, its job was found by name and ran once"


async def takes_out_strays(bench: Bench) -> str:
    """Check that jobs under our names that nobody asked for are taken out, as when a submission of
    an agent that was killed arrives after all."""
    async with bench.serving() as (manager, witness):
        await manager.submit(bench.job())
        await witness.running(CLAIM)
        (ours,) = [job.number for job in await bench.alive()]
        for claim in (CLAIM, "j9/1/0/1"):
            await bench.submit(bench.job(claim))

        async def left() -> list[str]:
            await manager.listing()
            return [job.number for job in await bench.alive()]

        await bench.until(
            left, lambda jobs: jobs == [ours], f"job {ours} alone", describe=", ".join
        )
        _expect_listed(
            [entry for entry in await manager.listing() if entry.claim == CLAIM], Running
        )
    return "a second job of a claim and a job of an unknown claim are gone"


async def outlives_agent(bench: Bench) -> str:
    """Check that the next agent finds what runs and what has ended meanwhile."""
    ending = bench.job(OTHER_CLAIM, "sh", "-c", "exit 5")
    async with bench.serving() as (manager, witness):
        await manager.submit(bench.job())
        await witness.running(CLAIM)
        await manager.submit(ending)
    async with bench.serving() as (manager, witness):
        end = await witness.ended(OTHER_CLAIM)
        _expect_listed(
            [entry for entry in await manager.listing() if entry.claim == CLAIM], Running
        )
    return _judged(end, EndCause.EXITED, 5)


async def withdraws_running(bench: Bench) -> str:
    """Check that a running job ends when it is withdrawn."""
    async with bench.serving() as (manager, witness):
        await manager.submit(bench.job())
        await witness.running(CLAIM)
        await manager.withdraw(CLAIM)
        end = await witness.ended(CLAIM)
    expect(not await bench.alive(), "a withdrawn claim is reported as ended while its job runs")
    return _judged(end, EndCause.WITHDRAWN, None)


async def withdraws_waiting(bench: Bench) -> str:
    """Check that a waiting job leaves the queue when it is withdrawn."""
    whole = bench.settings.processors
    async with bench.serving() as (manager, witness):
        await manager.submit(bench.job(processors=whole))
        await witness.running(CLAIM)
        waiting = bench.job(OTHER_CLAIM, processors=whole)
        await manager.submit(waiting)
        (listed,) = [entry for entry in await manager.listing() if entry.claim == OTHER_CLAIM]
        await manager.withdraw(OTHER_CLAIM)
        end = await witness.ended(OTHER_CLAIM)
    expect(len(await bench.alive()) <= 1, "a withdrawn claim is still in the queue")
    if not isinstance(listed, Queued):
        raise NotableError(
            f"no job had to wait: with site.processors = {whole} two of that size run at a time"
        )
    return _judged(end, EndCause.WITHDRAWN, None)


async def tells_cancelled(bench: Bench) -> str:
    """Check that a job that somebody else has cancelled is told as such."""
    async with bench.serving() as (manager, witness):
        await manager.submit(bench.job())
        await witness.running(CLAIM)
        (job,) = await bench.alive()
        await bench.cancel(job.number)
        end = await witness.ended(CLAIM)
        return _judged(end, end.cause if end.cause in CANCELLED else CANCELLED[0], None)


async def survives_odd_names(bench: Bench) -> str:
    """Check that a listing with odd names of others is read, and hides none of ours."""
    taken = []
    for number, name in enumerate(ODD_NAMES):
        try:
            job = bench.job(f"j2/1/{number}/1")
            taken.append(await bench.submit(job, name=name))
        except LocalManagerError:
            continue  # no user can have such a name
    try:
        ours = await bench.submit(bench.job())
        jobs = await bench.listed()
        is_there = any(job.number == ours and job.name == bench.name() for job in jobs)
        expect(is_there, f"job {ours} is hidden by odd names; listed: {jobs_text(jobs)}")
    finally:
        for odd in taken:
            await bench.cancel(odd)
    return f"{len(taken)} of {len(ODD_NAMES)} odd names were taken, none hides ours"


async def counts(bench: Bench) -> str:
    """Check the figures: a running job's processors are not idle."""
    commands = bench.dialect.figures()
    figures = bench.dialect.read_figures(await bench.answers(commands))
    ours = bench.settings.processors
    if figures is None:
        return f"it tells no processors: site.processors = {ours} count"
    whole = figures.processors
    expect(0 <= figures.idle <= whole, f"{figures.idle} of {whole} processors are idle")
    expect(figures.queued_jobs >= 0, f"{figures.queued_jobs} jobs wait")
    async with bench.serving() as (manager, witness):
        await manager.submit(bench.job())
        await witness.running(CLAIM)

        async def idle() -> int:
            now = bench.dialect.read_figures(await bench.answers(commands))
            return whole if now is None else now.idle

        right = f"fewer than {whole} idle processors beside a job"
        await bench.until(idle, lambda seen: seen < whole, right)
    if whole < ours:
        raise NotableError(f"site.processors = {ours}, but it has {whole}")
    return f"{figures.idle} of {whole} processors were idle, {figures.queued_jobs} jobs waited"


async def keeps_gated(bench: Bench) -> str:
    """Check that a gated job is passed over, and starts before a later one when it is opened."""
    answers = await bench.answers(bench.dialect.gates())
    gates = [gate.name for gate in bench.dialect.read_gates(answers) if gate.keeps_place]
    if not gates:
        return "it has no gate: claims do not wait in its queue for long"
    whole = bench.settings.processors
    async with bench.serving() as (manager, witness):
        await manager.submit(bench.job(processors=whole, is_gated=True))
        await manager.submit(bench.job(OTHER_CLAIM))
        await witness.running(OTHER_CLAIM)
        _expect_listed([entry for entry in await manager.listing() if entry.claim == CLAIM], Queued)
        await manager.submit(bench.job(LATER_CLAIM, processors=whole))
        await manager.set_gate(CLAIM, is_gated=False)
        await manager.withdraw(OTHER_CLAIM)
        await witness.running(CLAIM)
        later = [entry for entry in await manager.listing() if entry.claim == LATER_CLAIM]
        await manager.withdraw(LATER_CLAIM)
        await witness.ended(LATER_CLAIM)
    seen = f"{manager.gate}: a gated job was passed over, and started once it was opened"
    if not isinstance(later[0], Queued):
        raise NotableError(f"{seen}; whether it keeps its place was not seen: none had to wait")
    return f"{seen}, before a later one"


async def keeps_booking(bench: Bench) -> str:
    """Check that a booked job begins in time, and that nothing of its booking is left."""
    booker = bench.dialect.read_booking(await bench.answers(bench.dialect.booking()))
    if booker is None:
        return "this account books nothing"
    async with bench.serving() as (manager, witness):
        begins_at = clock.unix_now() + BOOKED_S
        job = bench.job(time_limit_s=bench.settings.time_limit_s)
        await manager.submit(replace(job, begins_at=begins_at))
        within_s = BOOKED_S + LATE_S + bench.settings.limit_s
        await witness.until(
            Running, lambda entry: entry.claim == CLAIM, f"that {CLAIM} runs", within_s=within_s
        )
        late_s = clock.unix_now() - begins_at
        expect(-NEAR_S <= late_s < LATE_S, f"it began {late_s:.0f} s after its booking")
        await manager.withdraw(CLAIM)
        await witness.ended(CLAIM)

        async def left() -> list[str]:
            assert booker.list is not None
            (answer,) = await bench.answers((booker.list,))
            names = [booking.name for booking in booker.read_list(answer)]
            return [name for name in names if name == bench.name()]

        if booker.list is not None:
            await bench.until(left, lambda names: not names, "no booking of an ended claim")
    return f"{booker.name}: a booked job began after {late_s:.0f} s, and gave the rest back"


async def keeps_time_limit(bench: Bench) -> str:
    """Check that a job is ended at its time limit, never before, and is told as such."""
    limit_s = bench.settings.time_limit_s
    kept_s = _kept_limit_s(bench, limit_s)
    expect(kept_s < math.inf, f"its submission is the same for a time limit of {limit_s:g} s")
    rounded = "" if kept_s == limit_s else f" (kept as {kept_s:g} s)"
    if kept_s > max(2 * limit_s, ROUNDED_MAX_S):
        raise NotableError(
            f"a time limit of {limit_s:g} s is kept as {kept_s:g} s, and was not tried:"
            f" --time-limit {0.75 * kept_s:g} waits for so long"
        )
    async with bench.serving() as (manager, witness):
        submitted_at = clock.now()
        await manager.submit(bench.job(time_limit_s=limit_s))
        await witness.running(CLAIM)
        end = await witness.ended(CLAIM, within_s=kept_s + OVER_LIMIT_S)
        took_s = clock.now() - submitted_at
    text = _judged(end, EndCause.TIME_LIMIT, None)
    expect(took_s >= limit_s, f"ended after {took_s:.1f} s, before its limit of {limit_s:g} s")
    return f"{text}, {took_s:.0f} s after its submission, with a limit of {limit_s:g} s{rounded}"


def _kept_limit_s(bench: Bench, limit_s: float) -> float:
    """Return the longest time limit that is submitted in the same words, as where a batch system
    counts whole minutes or hours; infinite where limits change nothing."""

    def is_same(other_s: float) -> bool:
        shorter, longer = bench.job(time_limit_s=limit_s), bench.job(time_limit_s=other_s)
        return bench.submission(shorter) == bench.submission(longer)

    low, high = limit_s, 2 * limit_s
    while is_same(high):
        low, high = high, 2 * high
        if high > LIMITLESS_S:
            return math.inf
    while high - low > NEAR_S:
        middle = (low + high) / 2
        low, high = (middle, high) if is_same(middle) else (low, middle)
    return round(low, 1)


CHECKS: dict[str, Check] = {
    "listing": lists_by_name,
    "job": runs_as_told,
    "quoting": keeps_text,
    "signal": tells_signal,
    "once": runs_once,
    "lost answer": finds_lost_answer,
    "strays": takes_out_strays,
    "next agent": outlives_agent,
    "cancel running": withdraws_running,
    "cancel waiting": withdraws_waiting,
    "cancelled by others": tells_cancelled,
    "odd names": survives_odd_names,
    "figures": counts,
    "gate": keeps_gated,
    "booking": keeps_booking,
    "time limit": keeps_time_limit,
}
"""All checks, by the words that stand for them."""


async def tried(
    check: Check, dialect: Dialect, runner: CommandRunner, settings: BenchSettings
) -> str:
    """Make a check at a bench of its own, and end all jobs of it. Raises KoalaError."""
    bench = Bench(dialect, runner, settings)
    try:
        seen = await check(bench)
        await bench.clear()
    except Exception as error:
        failed = bench.failures.text
        with suppress(Exception):
            await bench.clear()
        raise with_failures(_first(error), failed) from error
    return seen


def with_failures(error: Exception, failed: str) -> Exception:
    """Return the error of a check with the commands that `failed` meanwhile."""
    if not failed:
        return error
    if isinstance(error, NotableError):
        return NotableError(f"{error}\n{failed}")
    return LocalManagerError(f"{error}\n{failed}") if isinstance(error, KoalaError) else error


def _first(error: Exception) -> Exception:
    """Return the first error of a group: a check's own beside its manager's tasks."""
    while isinstance(error, ExceptionGroup):
        error = error.exceptions[0]
    return error


def _judged(end: Ended, cause: EndCause, exit_status: int | None) -> str:
    """Describe an end. Raises NotableError where it is told otherwise, and LocalManagerError where
    it would be taken for another program's."""
    text = end_text(end)
    if end.cause is cause and (cause is not EndCause.EXITED or end.exit_status == exit_status):
        return text
    expected = f"{cause}" if exit_status is None else f"{cause}, exit status {exit_status}"
    if end.exit_status is None and end.cause is EndCause.EXITED:
        raise NotableError(f"told as {text} (expected {expected}); starters tell more")
    raise LocalManagerError(f"told as {text} (expected {expected})")


def _expect_listed(listed: Sequence[Listed], kind: type[Listed]) -> None:
    kinds = [type(entry) for entry in listed]
    told = ", ".join(map(listed_text, listed)) or "nothing"
    expect(kinds == [kind], f"listed: {told} (expected one that is {kind.__name__.lower()})")
