"""The manager of batch systems: claims with a known start, and what becomes of their bookings."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from dataclasses import replace
from pathlib import Path

import pytest

from koala.errors import LocalManagerError
from koala_agent.conformance.witness import Witness
from koala_agent.lrm.batch.batch_manager import BatchManager
from koala_agent.lrm.batch.batch_settings import BatchSettings
from koala_agent.lrm.batch.bookings import FAILURES, LOOK_S, TROUBLE_S
from koala_agent.lrm.batch.gridengine import GridEngine
from koala_agent.lrm.batch.oar import OAR
from koala_agent.lrm.batch.slurm.dialect import Slurm
from koala_agent.lrm.batch.slurm.reservations import LIST_BOOKINGS
from koala_agent.lrm.dialect import LATE_S, Booker
from koala_agent.lrm.local_manager import (
    EndCause,
    Idle,
    PausedError,
    Placeholder,
    RequestRefusedError,
)
from koala_agent.transport.interface import Answer, Command
from tests.harness.moments import until
from tests.lrm.batch.dialects import CLOCK
from tests.lrm.batch.first_claim import FIRST, NAME, said
from tests.lrm.batch.imitated_slurm import CLAIM, Cluster
from tests.lrm.harness import serving

BEGINS_AT = 1000.0
BOOKING = "koala-ab-j1.1.0.1"


class BookableCluster(Cluster):
    """Slurm with an operator's account; reservations are as in the real one."""

    def __init__(self) -> None:
        super().__init__()
        self.bookings: list[str] = []
        self.is_deaf_to_bookings = False
        self.keeps_bookings = False
        self.has_room_for_one = False
        self.refuses_late = False

    async def run(self, command: Command, account: str = "") -> Answer:
        """See Cluster; one that refuses late is looked at meanwhile."""
        answer = await super().run(command, account)
        if self.refuses_late and command.argv[:2] == ("scontrol", "create"):
            looks = self.looks()
            await until(lambda: self.looks() > looks + 1)
        return answer

    def _tell(self, argv: tuple[str, ...]) -> Answer:
        match argv:
            case ("scontrol", "create", "reservation", "reservationname=koala-right", *_):
                return said(status=1, err="Error creating the reservation: Invalid time specified")
            case ("scontrol", "create", *_) if self.has_room_for_one and self.bookings:
                return said(
                    status=1, err="Error creating the reservation: Requested nodes are busy"
                )
            case ("scontrol", "create", "reservation", name, *_):
                self.bookings.append(name.partition("=")[2])
                if self.is_deaf_to_bookings:
                    raise LocalManagerError("scontrol gave no answer in 15 s", transient=True)
                return said(f"Reservation created: {self.bookings[-1]}\n")
            case ("/bin/sh", "-c", script) if script == LIST_BOOKINGS:
                return said("".join(f"ReservationName={one} Start=1\n" for one in self.bookings))
            case ("scontrol", "delete", name):
                if self.keeps_bookings:
                    return said(status=1, err="Requested reservation is in use")
                self.bookings.remove(name.partition("=")[2])
                return said()
            case _:
                return super()._tell(argv)

    def looks(self) -> int:
        """Count the listings of bookings."""
        return self.said.count(("/bin/sh", "-c", LIST_BOOKINGS))


Serve = Callable[..., AbstractAsyncContextManager[tuple[BatchManager, Witness]]]


@pytest.fixture
def cluster() -> BookableCluster:
    return BookableCluster()


@pytest.fixture
def serve(cluster: BookableCluster, tmp_path: Path) -> Serve:
    """The clock of the site shows the time of the tests."""

    @asynccontextmanager
    async def run(*, books: bool = True) -> AsyncIterator[tuple[BatchManager, Witness]]:
        settings = BatchSettings(
            processors=16,
            state_directory=tmp_path / "state",
            scope="ab",
            poll_s=0.01,
            figures_s=0.01,
            books=books,
        )
        witness = Witness()
        manager = BatchManager(
            settings,
            Slurm(user="ann"),
            cluster,
            on_report=witness,
            clock=cluster.clock,
            calendar=cluster.clock,
        )
        async with serving(manager):
            yield manager, witness

    return run


@pytest.fixture
def booked(placeholder: Placeholder) -> Placeholder:
    return replace(placeholder, begins_at=BEGINS_AT)


async def test_a_claim_that_does_not_begin_in_its_booking_is_refused_and_gives_it_back(
    serve: Serve, cluster: BookableCluster, booked: Placeholder
) -> None:
    async with serve() as (manager, witness):
        await manager.submit(booked)
        (argv,) = [argv for argv in cluster.said if argv[0] == "sbatch"]
        assert f"--reservation={BOOKING}" in argv
        idle = await witness.until(Idle, lambda idle: bool(idle.waits))
        assert idle.waits[0].source == "booking"
        cluster.job("0.1").reason = "ReqNodeNotAvail"
        cluster.now = BEGINS_AT + LATE_S + 1
        end = await witness.ended(CLAIM)
        assert end.cause is EndCause.WITHDRAWN
        assert end.reason.startswith("not started 121 s after the begin of its booking: ")
        await cluster.polls()
        assert cluster.bookings == []
        looks = cluster.looks()
        cluster.now += 10 * LOOK_S
        await cluster.polls()
        assert cluster.looks() == looks  # without any there is nothing to look for


async def test_a_booking_without_an_answer_is_found_and_used(
    serve: Serve, cluster: BookableCluster, booked: Placeholder
) -> None:
    async with serve() as (manager, _):
        cluster.is_deaf_to_bookings = True
        with pytest.raises(LocalManagerError) as caught:
            await manager.submit(booked)
        assert caught.value.transient
        assert await manager.listing() == ()
        cluster.now = 100.0  # not at once
        await manager.submit(booked)
        assert cluster.bookings == [BOOKING]
        assert len(cluster.jobs) == 1


async def test_a_booking_whose_job_is_refused_is_given_back(
    serve: Serve, cluster: BookableCluster, booked: Placeholder
) -> None:
    async with serve() as (manager, _):
        await manager.listing()
        cluster.now = 100.0
        cluster.refusal = "Invalid partition name specified"
        with pytest.raises(LocalManagerError):
            await manager.submit(booked)
        await cluster.polls()
        assert cluster.bookings == []


async def test_a_booking_that_stays_is_told_to_the_administrator(
    serve: Serve, cluster: BookableCluster, booked: Placeholder
) -> None:
    async with serve() as (manager, witness):
        await manager.submit(booked)
        cluster.keeps_bookings = True
        await manager.withdraw(CLAIM)
        assert (await witness.ended(CLAIM)).cause is EndCause.WITHDRAWN
        await cluster.polls(FAILURES)
        told = await witness.until(Idle, lambda idle: "bookings are not given back" in idle.trouble)
        assert "in use" in told.trouble
        cluster.keeps_bookings = False
        await cluster.polls()
        assert cluster.bookings == []


@pytest.mark.parametrize("late_s", [0.0, 5.0])
async def test_a_site_that_books_nothing_or_too_late_refuses(
    serve: Serve, cluster: BookableCluster, booked: Placeholder, late_s: float
) -> None:
    cluster.now = BEGINS_AT + late_s
    words = "was to begin" if late_s else "books no processors"
    async with serve(books=late_s > 0) as (manager, _):
        await manager.idle()
        assert manager.books == ("reservation" if late_s else "")
        with pytest.raises(RequestRefusedError, match=words):
            await manager.submit(booked)
        assert cluster.bookings == []


# Dialects -----------------------------------------------------------------------------------------


def booker(dialect: GridEngine | Slurm | OAR, *answers: Answer) -> Booker | None:
    return dialect.read_booking(answers)


GRID = GridEngine(parallel_environment="grid", user="ann")
LISTED = said("name arusers\nentries bob,\\\n        ann\n")
NO_LIST = said(status=1, err='"arusers" does not exist')


def test_the_right_to_book_is_that_of_the_account() -> None:
    denied = said(status=1, err="Error creating the reservation: Invalid user id")
    bookers = [
        *(booker(GRID, LISTED, said("root\n")), booker(GRID, NO_LIST, said("root\nann\n"))),
        *(booker(GRID, NO_LIST, said("root\n")), booker(Slurm(user="ann"), denied)),
        *(booker(Slurm()), booker(OAR())),
    ]
    assert [one and one.is_allowed for one in bookers] == [True, True, False, False, None, True]


def test_commands_of_bookings_have_the_wishes_of_the_claim() -> None:
    asked = replace(FIRST, begins_at=1e9 + 0.5)
    grid = booker(GRID, LISTED, said())
    assert grid is not None
    assert grid.book is not None
    assert grid.book(asked, NAME).argv[4:] == (
        *("1000000001", "-N", NAME, "-d", "211", "-pe", "grid", "4"),
    )
    assert OAR().submit(asked, name=NAME, script="#!/bin/sh\n").argv[6] == "1000000001"


@pytest.mark.parametrize(
    ("flags", "cpus", "begins", "is_taken"),
    [("MAINT", 8, 150, True), ("MAINT", 4, 150, False), ("OVERLAP", 8, 200, False)],
    ids=["whole", "part", "after it"],
)
def test_a_booking_at_machines_that_are_reserved_for_others_later_is_in_trouble(
    flags: str, cpus: int, begins: int, *, is_taken: bool
) -> None:
    """Slurm books over it, and starts nothing in it. One of others may serve short jobs."""
    rows = [
        f"ReservationName={name} StartTime=100 EndTime=200 Nodes=a1 Flags= TRES=cpu=8"
        for name in (NAME, "course")
    ]
    late = f"ReservationName=late StartTime={begins} EndTime=300 Nodes=a1 Flags={flags}"
    text = "\n".join([*rows, f"{late} TRES=cpu={cpus} State=INACTIVE", "HAS a1 8"])
    booking, *others = Slurm().read_reservations(said(text))
    assert booking.trouble == ("reservation late has its machines, too" if is_taken else "")
    assert (booking.cause is EndCause.CANCELLED_BY_SITE) is is_taken, "no fault of the site"
    assert [one.trouble for one in others] == ["", ""]


def test_answers_about_bookings_are_read() -> None:
    grid = booker(GRID, LISTED, said())
    assert grid is not None
    assert grid.read_booked(said("Your advance reservation 12 has been granted\n")) == "12"
    with pytest.raises(RequestRefusedError, match="no suitable queues"):
        grid.read_booked(said("advance_reservation: no suitable queues\n", status=1))
    with pytest.raises(LocalManagerError) as caught:
        grid.read_booked(said(status=1, err="error: unable to contact qmaster"))
    assert caught.value.transient
    rows = "".join(
        f"<ar_summary><id>{n}</id><name>{NAME}</name><state>{s}</state><owner>{who}</owner>"
        "</ar_summary>"
        for n, (s, who) in enumerate([*((s, "ann") for s in "wrWdx"), ("w", "bob")])
    )
    answer = said(f"{CLOCK}\n<a>{rows}</a>")
    listed = [(one.number, bool(one.trouble)) for one in grid.read_list(answer)]
    assert listed == [("0", False), ("1", False), ("2", True)]
    text = "OAR_JOB_ID=2\n# Reservation not valid --> KO (Reservation too old)\n"
    with pytest.raises(RequestRefusedError, match="oarsub -r: Reservation too old"):
        OAR().read_submitted(said(text, status=10))


async def test_a_booking_that_an_own_old_one_is_in_the_way_of_is_asked_for_again(
    serve: Serve, cluster: BookableCluster, booked: Placeholder
) -> None:
    """Else one that moves would be refused by itself, and move on for days."""
    cluster.has_room_for_one = cluster.keeps_bookings = True
    moved = replace(booked, claim="j1/1/0/2", begins_at=BEGINS_AT + 60)
    async with serve() as (manager, witness):
        await manager.submit(booked)
        await manager.withdraw(CLAIM)
        with pytest.raises(PausedError, match="nodes are busy"):
            await manager.submit(moved)
        cluster.keeps_bookings = False
        await witness.ended(CLAIM)
        await until(lambda: not cluster.bookings)
        await manager.submit(moved)
        third = replace(moved, claim="j1/1/0/3")
        await until(lambda: not manager._bookings.is_giving_back)
        with pytest.raises(RequestRefusedError):
            await manager.submit(third)


async def test_a_booking_that_was_refused_while_they_were_listed_is_in_the_way_of_none(
    serve: Serve, cluster: BookableCluster, booked: Placeholder
) -> None:
    """Else the next one is asked for again and again, for the instant that was refused."""
    cluster.has_room_for_one = True
    async with serve() as (manager, _):
        await manager.submit(booked)
        cluster.refuses_late = True
        for number in (2, 3):
            claim = replace(booked, claim=f"j1/1/0/{number}", processors=number)
            with pytest.raises(RequestRefusedError):
                await manager.submit(claim)


async def test_a_claim_that_cannot_be_ended_lets_others_ask_for_another_instant_after_a_minute(
    serve: Serve, cluster: BookableCluster, booked: Placeholder
) -> None:
    cluster.has_room_for_one = True
    moved = replace(booked, claim="j1/1/0/2")
    async with serve() as (manager, _):
        await manager.submit(booked)
        cluster.job("0.1").state = "COMPLETING"  # its machine has failed
        await manager.withdraw(CLAIM)
        with pytest.raises(PausedError):
            await manager.submit(moved)
        cluster.now += TROUBLE_S
        with pytest.raises(RequestRefusedError):
            await manager.submit(moved)
