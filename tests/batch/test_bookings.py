"""Claims with a known start, in front of real batch systems that book processors for them."""

from __future__ import annotations

import math
import re
import shutil
import time
from collections.abc import Callable, Iterator
from contextlib import suppress
from dataclasses import dataclass, replace
from pathlib import Path

import pytest

from koala.common.protocol.messages import Resources
from koala.errors import LocalManagerError
from koala_agent.conformance.witness import Witness
from koala_agent.environments import of_commands
from koala_agent.lrm.dialect import LATE_S, Dialect
from koala_agent.lrm.local_manager import (
    EndCause,
    Idle,
    Placeholder,
    Queued,
    RequestRefusedError,
    Running,
)
from koala_agent.transport.interface import Answer, Command
from koala_agent.transport.shell import Shell
from tests.batch.conftest import Serve, cleared
from tests.batch.systems.grids import ours
from tests.batch.systems.oar import OARCluster
from tests.batch.systems.system import System
from tests.harness.moments import until
from tests.lrm.harness import Ask

pytestmark = pytest.mark.lrm

SYSTEMS = {
    "gridengine": ("cell", "gamma"),
    "oar": ("oar", "omega"),
    "slurm": ("slurm", "alpha"),
    "newer slurm": ("newer_slurm", "iota"),
}
OF_STAFF = [kind for kind in SYSTEMS if kind != "oar"]
"""Those where staff give the right to book, and reserve for others."""
SOON_S, LIMIT_S = 15.0, 120.0
CRASH_S, OAR_CRASH_S = 8.0, 20.0
"""Longest time that two crashes of an agent take on a busy machine; `oarsub -r` waits for OAR."""
CLAIM, OTHER = "j1/1/0/1", "j2/1/0/1"


@pytest.fixture(params=list(SYSTEMS))
def system(request: pytest.FixtureRequest) -> Iterator[System]:
    """A system whose commands run as a user who may book."""
    yield from cleared(request, *SYSTEMS[request.param])


@pytest.fixture
def dialect(system: System) -> Dialect:
    """The words of the account of the tests."""
    known = system.dialect
    return known if system.kind == "oar" else replace(known, user="root")  # type: ignore[type-var]


RESERVED = 8


def reserved(system: System, begins_at: int) -> str:
    """Reserve a machine's processors, as staff do; return the name."""
    if system.kind == "gridengine":
        at = time.strftime("%Y%m%d%H%M.%S", time.localtime(begins_at))
        said = system.run("qrsub", "-a", at, "-d", "600", "-pe", "grid", str(RESERVED))
        return str(re.findall(r"reservation ([0-9]+)", said)[0])
    if system.kind == "oar":
        at = time.strftime("%F %T", time.localtime(begins_at))
        size = ("-l", f"/host=1/core={RESERVED},walltime=0:10:0", "-d", "/tmp")
        said = system.run("oarsub", "-r", at, *size, "true")
        return str(re.findall(r"OAR_JOB_ID=([0-9]+)", said)[0])
    when = (f"starttime=uts{begins_at}", "duration=10", "users=root", f"tres=cpu={RESERVED}")
    system.run("scontrol", "create", "reservation", "reservationname=course", *when)
    return "course"


def end_reservation(system: System, name: str) -> None:
    """End a reservation while jobs run and wait in it, which Slurm lets nobody delete."""
    if system.kind == "slurm":
        until = f"endtime=uts{math.ceil(time.time()) + 1}"
        system.run("scontrol", "update", f"reservationname={name}", until)
    else:
        system.unbook(name)


def booked(placeholder: Placeholder, in_s: float) -> Placeholder:
    return replace(placeholder, begins_at=time.time() + in_s)


async def begun(witness: Witness, claim: str) -> None:
    """Wait for a start, which OAR makes up to a minute late."""
    await witness.until(Running, lambda one: one.claim == claim, within_s=180.0)


async def test_a_booked_claim_begins_in_time_and_gives_back_what_it_does_not_need(
    serve: Serve, ask: Ask, system: System, dialect: Dialect
) -> None:
    """Processors that others wanted meanwhile are free then."""
    async with serve(dialect=dialect) as (manager, witness):
        await witness.until(Idle, lambda _: True)
        assert manager.books == {"oar": "oar", "gridengine": "qrsub"}.get(
            system.kind, "reservation"
        )
        asked = booked(ask(CLAIM, "sleep", "3", processors=12, time_limit_s=LIMIT_S), SOON_S)
        await manager.submit(asked)
        assert await manager.find(CLAIM) == Queued(claim=CLAIM)
        told = await witness.until(Idle, lambda idle: bool(idle.waits))
        assert (told.waits[0].source, told.waits[0].start_in_s) == ("booking", 30.0)
        await witness.until(Idle, lambda idle: idle.startable == 4)
        await manager.submit(booked(ask(OTHER, "sleep", "3", processors=4), SOON_S + 3600))
        with pytest.raises(RequestRefusedError):
            await manager.submit(booked(ask("j3/1/0/1", processors=12), SOON_S + 20))
        await begun(witness, CLAIM)
        late_s = time.time() - asked.begins_at
        assert -1 <= late_s < LATE_S
        assert (await witness.ended(CLAIM)).cause is EndCause.EXITED
        await manager.withdraw(OTHER)
        assert (await witness.ended(OTHER)).cause is EndCause.WITHDRAWN
        await until(lambda: not ours(system))


async def test_a_booking_is_given_back_after_its_begin_too(
    serve: Serve, ask: Ask, system: System, dialect: Dialect
) -> None:
    async with serve(dialect=dialect) as (manager, witness):
        await manager.submit(booked(ask(CLAIM, processors=12, time_limit_s=LIMIT_S), 5.0))
        await begun(witness, CLAIM)
        await witness.until(Idle, lambda idle: idle.idle == idle.startable == 4)
        await manager.withdraw(CLAIM)
        assert (await witness.ended(CLAIM)).cause is EndCause.WITHDRAWN
        await witness.until(Idle, lambda idle: idle.startable == 16)
        await until(lambda: not ours(system))


@pytest.mark.parametrize("is_own", [True, False], ids=["ours", "of others"])
async def test_what_is_booked_is_idle_for_claims_that_end_before(
    serve: Serve, ask: Ask, system: System, dialect: Dialect, *, is_own: bool
) -> None:
    """And a claim that is as long as it is told starts at once."""
    begins_at = math.ceil(time.time() + 410)
    name = "" if is_own else reserved(system, begins_at)
    async with serve(dialect=dialect) as (manager, witness):
        if is_own:
            asked = ask(CLAIM, processors=RESERVED, time_limit_s=LIMIT_S)
            await manager.submit(replace(asked, begins_at=begins_at))
        told = await witness.until(Idle, lambda idle: idle.startable == 8 and bool(idle.holes))
        (hole,) = told.holes
        assert (told.idle, hole.processors, hole.for_s) == (16, 16, 300.0)
        await manager.submit(ask(OTHER, "true", processors=16, time_limit_s=hole.for_s))
        assert (await witness.ended(OTHER)).cause is EndCause.EXITED
    if name:
        system.unbook(name)


@pytest.mark.parametrize(("size", "in_s", "limit_s"), [(12, -60.0, 60.0), (16, 60.0, float("inf"))])
async def test_a_booking_that_cannot_be_had_is_refused(
    serve: Serve,
    ask: Ask,
    system: System,
    dialect: Dialect,
    *,
    size: int,
    in_s: float,
    limit_s: float,
) -> None:
    async with serve(dialect=dialect) as (manager, _):
        with pytest.raises(RequestRefusedError):
            await manager.submit(booked(ask(CLAIM, processors=size, time_limit_s=limit_s), in_s))
        assert await manager.listing() == ()
    assert not ours(system)


@pytest.mark.parametrize("system", ["gridengine"], indirect=True)
async def test_a_booking_for_an_hour_that_is_twice_on_the_clock_begins_at_its_instant(
    serve: Serve, ask: Ask, system: System, dialect: Dialect
) -> None:
    """Summer time ends for the agent in ten minutes."""
    end = time.gmtime(time.time() + 600 + 3600)
    zone = f"AAA0BBB-1,0/0,{end.tm_yday - 1}/{end.tm_hour}:{end.tm_min:02d}"
    shell = Shell(environment={**of_commands(system.environment), "TZ": zone})
    async with serve(dialect=dialect, runner=shell) as (manager, _):
        asked = booked(ask(CLAIM, processors=6, time_limit_s=LIMIT_S), 300.0)
        await manager.submit(asked)
        for outer in (shell, Shell(environment=of_commands(system.environment))):
            answers = [await outer.run(command) for command in dialect.figures()]
            figures = dialect.read_figures(tuple(answers))
            assert figures is not None
            assert [one.begins_at for one in figures.booked] == [math.ceil(asked.begins_at)]


class CrashError(Exception):
    """The agent ends here."""


@dataclass(frozen=True)
class Crashing:
    """Commands of an agent that ends before, or right after, the first one with this word."""

    shell: Shell
    word: str
    is_after: int

    async def run(self, command: Command, account: str = "") -> Answer:
        if not any(self.word in argument for argument in command.argv):
            return await self.shell.run(command, account)
        if self.is_after:
            await self.shell.run(command, account)
        raise CrashError


CRASHES = {
    "gridengine": ("koala-book", "qsub"),
    "oar": ("koala-submit",),
    "slurm": ("tres=cpu=3", "--parsable"),
}
"""Words of the commands that book, and that submit."""


async def test_after_a_crash_a_claim_is_bound_to_its_booking_or_gives_it_back(
    serve: Serve, ask: Ask, system: System, dialect: Dialect, shell: Shell
) -> None:
    """Before and after each command; all claims that are kept begin at one instant."""
    crashes = [Crashing(shell, word, after) for word in CRASHES[system.kind] for after in (0, 1)]
    soon_s = len(crashes) * (OAR_CRASH_S if system.kind == "oar" else CRASH_S)
    kept = [
        booked(ask(f"j1/1/{number}/1", "sleep", "2", processors=3, time_limit_s=LIMIT_S), soon_s)
        for number in range(len(crashes))
    ]
    given_back = [
        booked(ask(f"j2/1/{number}/1", processors=3, time_limit_s=LIMIT_S), 3600.0)
        for number in range(len(crashes))
    ]
    for number, crash in enumerate(crashes):
        for claim in (kept[number], given_back[number]):
            async with serve(kill=False, dialect=dialect, runner=crash) as (manager, _):
                with pytest.raises(CrashError):
                    await manager.submit(claim)
        if number == 0:
            assert not ours(system)
    before = ours(system)
    async with serve(dialect=dialect) as (manager, witness):
        await manager.listing()
        for claim in given_back:
            await manager.withdraw(claim.claim)
        await until(lambda: len(ours(system)) <= len(before) // 2)
        for claim in kept:
            await manager.submit(claim)
        assert len(ours(system)) <= 2 * len(kept)
        for claim in kept:
            assert (await witness.ended(claim.claim, within_s=LIMIT_S)).cause is EndCause.EXITED
        await until(lambda: not ours(system))


@pytest.mark.parametrize("system", ["oar"], indirect=True)
async def test_a_booking_whose_command_had_no_answer_can_be_had_and_given_back(
    serve: Serve, ask: Ask, system: System
) -> None:
    """OAR keeps one whose command ended for minutes, and no oardel ends it."""
    assert isinstance(system, OARCluster)
    hasty = Shell(environment=of_commands(system.environment), limit_s=6.0)
    async with serve(kill=False, runner=hasty) as (manager, _):
        await manager.listing()
        with system.server_away(), pytest.raises(LocalManagerError):
            await manager.submit(booked(ask(CLAIM, processors=6, time_limit_s=LIMIT_S), 600.0))
    async with serve() as (manager, _):
        await until(lambda: "Scheduled" in system.run("oarstat", "-f"))
        await manager.withdraw(CLAIM)
        await until(lambda: not ours(system))


async def test_what_no_claim_has_is_given_back(
    serve: Serve, ask: Ask, system: System, dialect: Dialect, tmp_path: Path
) -> None:
    """The agent has lost its table: its name is in another one."""
    async with serve(kill=False, dialect=dialect) as (manager, _):
        await manager.submit(booked(ask(CLAIM, processors=6, time_limit_s=LIMIT_S), 3600.0))
        scope = manager._table.scope
    shutil.rmtree(tmp_path / "state")
    async with serve(dialect=dialect, scope=scope):
        await until(lambda: not ours(system))


@pytest.mark.parametrize("system", [one for one in SYSTEMS if one != "oar"], indirect=True)
async def test_a_booking_that_the_site_deletes_or_whose_host_fails_ends_its_claim(
    serve: Serve, ask: Ask, system: System, dialect: Dialect
) -> None:
    async with serve(dialect=dialect) as (manager, witness):
        await manager.submit(booked(ask(CLAIM, processors=6, time_limit_s=LIMIT_S), 3600.0))
        if system.kind == "slurm":  # which deletes none that jobs wait for
            system.cancel(*system.numbers("koala-"))
        else:
            system.unbook(*system.bookings("koala-"))
        assert (await witness.ended(CLAIM)).cause is EndCause.CANCELLED_BY_SITE
        await manager.submit(booked(ask(OTHER, processors=12, time_limit_s=LIMIT_S), SOON_S))
        with system.drained():
            end = await witness.ended(OTHER)
        assert end.cause is EndCause.LOST
        assert re.search("its machine .*1 is down|a host or queue of it is not", end.reason)
        await until(lambda: not ours(system))


@pytest.mark.parametrize("system", OF_STAFF, indirect=True)
async def test_an_account_without_the_right_books_nothing(
    serve: Serve, ask: Ask, system: System
) -> None:
    without = replace(system.dialect, user="nobody")  # type: ignore[type-var]
    runner = _AsNobody(Shell(environment=of_commands(system.environment)))
    async with serve(dialect=without, runner=runner) as (manager, witness):
        await witness.until(Idle, lambda _: True)
        assert manager.books == ""
        with pytest.raises(RequestRefusedError, match="books no processors"):
            await manager.submit(booked(ask(CLAIM, time_limit_s=60.0), 60.0))


@pytest.fixture
def right(system: System) -> Iterator[Callable[[str], None]]:
    """Gives nobody the right to book at a cell ("-au"), or takes it ("-du"); in the end it is as it
    was."""

    def change(option: str) -> None:
        system.run("qconf", option, "nobody", "arusers")

    yield change
    with suppress(AssertionError):  # nobody has it
        change("-du")


@pytest.mark.parametrize("system", ["gridengine"], indirect=True)
async def test_an_account_that_loses_the_right_books_no_more_and_gives_back_once_it_may(
    serve: Serve, ask: Ask, system: System, right: Callable[[str], None]
) -> None:
    """The cell lets no owner of a booking delete it then."""
    right("-au")
    runner = _AsNobody(Shell(environment=of_commands(system.environment)))
    own = replace(system.dialect, user="nobody")  # type: ignore[type-var]
    async with serve(dialect=own, runner=runner) as (manager, witness):
        await until(lambda: manager.books == "qrsub")
        await manager.submit(booked(ask(CLAIM, processors=6, time_limit_s=LIMIT_S), 3600.0))
        right("-du")
        with pytest.raises(RequestRefusedError, match="must be manager"):
            await manager.submit(booked(ask(OTHER, processors=6, time_limit_s=LIMIT_S), 3600.0))
        await until(lambda: manager.books == "")
        await manager.withdraw(CLAIM)
        await witness.until(Idle, lambda idle: "not given back: qrdel: denied" in idle.trouble)
        right("-au")
        await until(lambda: not ours(system))


@pytest.mark.parametrize("system", OF_STAFF, indirect=True)
async def test_a_claim_in_a_reservation_that_exists_starts_there_and_is_expected_when_it_begins(
    serve: Serve, ask: Ask, system: System, dialect: Dialect
) -> None:
    """All else is in use; nobody takes it for a booking of ours. What could not run in it is
    refused, and what waits when it is over ends by no fault of the site."""
    async with serve(dialect=dialect) as (manager, witness):
        await witness.until(Idle, lambda _: True)
        begins_at = math.ceil(time.time() + SOON_S)
        name = reserved(system, begins_at)
        system.submit("sleep 1000\n", processors=16 - RESERVED, name="others")
        inside = Resources(reservation=name)
        await manager.submit(replace(ask(CLAIM, "sleep", "3", processors=6), resources=inside))
        told = await witness.until(Idle, lambda idle: any(one.source for one in idle.waits))
        assert (told.waits[0].source, told.waits[0].start_in_s) == ("reservation", 30.0)
        await begun(witness, CLAIM)
        assert -1 <= time.time() - begins_at < LATE_S
        assert (await witness.ended(CLAIM)).cause is EndCause.EXITED
        wrong = replace(ask(OTHER), resources=Resources(reservation="other"))
        large = replace(ask(OTHER, processors=RESERVED + 1), resources=inside)
        long = replace(ask(OTHER, time_limit_s=3600.0), resources=inside)
        for asked, why in (
            (wrong, f"other does not exist .expected.* {name}"),
            (large, "has 8 processors .expected 9"),
            (long, "lasts [0-9]+ .* .expected at least 60 min"),
        ):
            with pytest.raises(RequestRefusedError, match=why):
                await manager.submit(asked)
        told = await witness.until(Idle, lambda one: one.reservations == ((name, RESERVED),))
        assert (told.processors, told.startable, told.trouble) == (16, 0, "")
        whole = replace(ask("j4/1/0/1", processors=RESERVED, time_limit_s=60.0), resources=inside)
        await manager.submit(whole)
        await begun(witness, whole.claim)
        for claim in (late := ("j5/1/0/1", "j5/1/0/2")):
            asked = replace(ask(claim, processors=1, time_limit_s=60.0), resources=inside)
            await manager.submit(replace(asked, is_gated=True))
        await witness.until(Idle, lambda one: one.reservations == ((name, 0),) and bool(one.waits))
        gate = manager.gate
        end_reservation(system, name)
        for claim in late:
            end = await witness.ended(claim, within_s=90.0)
            assert end.cause is EndCause.CANCELLED_BY_SITE
        await manager.withdraw(whole.claim)
        await witness.ended(whole.claim)
        told = await manager.idle()
        assert (manager.gate, told.trouble) == (gate, ""), "no gate is to blame"


@dataclass(frozen=True)
class _AsNobody:
    shell: Shell

    async def run(self, command: Command, account: str = "") -> Answer:
        argv = ("setpriv", "--reuid=nobody", "--clear-groups", *command.argv)
        return await self.shell.run(replace(command, argv=argv), account)
