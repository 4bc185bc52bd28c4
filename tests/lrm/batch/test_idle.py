"""Idle processors of a batch system for a claim of ours, and the reasons why there are no more."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from koala.common.protocol.messages import Hole, Resources, Taken
from koala.common.protocol.names import ClaimId
from koala_agent.conformance.witness import Witness
from koala_agent.lrm.batch.batch_manager import BatchManager
from koala_agent.lrm.batch.batch_settings import BatchSettings
from koala_agent.lrm.batch.claim_tracking import ClaimRow, TrackedClaim
from koala_agent.lrm.batch.figures.idle_processors import idle_of
from koala_agent.lrm.batch.slurm import Slurm
from koala_agent.lrm.dialect import Booking, Figures, JobState
from koala_agent.lrm.local_manager import Idle, Placeholder
from tests.lrm.batch.imitated_slurm import CLAIM, Cluster, Serve, listed, queue_row
from tests.lrm.batch.test_samples import SLURM, nodes, said
from tests.lrm.harness import serving


def several(partition: str = "") -> Figures:
    """Read what a real cluster of four nodes told: in `gpu`, which has alpha4 alone, a job waits
    behind another one; in `batch` one waits for alpha4, two are held or begin later."""
    names = ("nodes", "pending", "partitions")
    answers = (
        *(said(SLURM / f"several-{name}.txt") for name in names),
        said(""),
        said(""),
        said(""),
    )
    return Slurm(partition=partition).read_figures(answers)


def idle(figures: Figures, *claims: TrackedClaim, allowed: int = 1000) -> Idle:
    return idle_of(figures, claims, allowed=allowed)


def waiting(number: str, processors: int) -> TrackedClaim:
    return TrackedClaim(row=ClaimRow(claim="j1/1/0/1", number=number, processors=processors))


def test_jobs_that_wait_for_other_nodes_leave_ours_idle() -> None:
    figures = several()
    (row,) = figures.waiting or ()
    assert (row.number, row.nodes) == ("14", frozenset({"alpha4"}))
    found = idle(figures)
    assert (found.processors, found.idle, found.startable) == (32, 10, 10)
    assert (found.foreign_queued, found.why) == (1, "")


def test_what_is_booked_for_later_is_idle_for_claims_that_end_before_it() -> None:
    ours = ClaimRow(claim="j1/1/0/1", processors=4, begins_at=1300.0, ends_at=1500.0)
    other = Booking(number="7", name="lecture", processors=10, begins_at=1600.0, ends_at=1900.0)
    figures = Figures(processors=16, idle=12, queued_jobs=0, booked=(other,))
    found = idle_of(figures, [TrackedClaim(row=ours)], allowed=16, now=1000.0)
    assert (found.idle, found.startable) == (12, 2)
    assert found.holes == (Hole(processors=12, for_s=240.0), Hole(processors=8, for_s=540.0))
    assert found.why == "10 idle, but booked for later"
    began = idle_of(figures, [TrackedClaim(row=ours)], allowed=16, now=1310.0)
    assert (began.idle, began.startable, began.why) == (
        *(8, 2),
        "6 idle, but booked for later; 4 idle, but reserved",
    )
    runs = TrackedClaim(row=ours, state=JobState.RUNNING)
    assert idle_of(figures, [runs], allowed=16, now=1310.0).idle == 12


def test_who_waits_for_a_node_of_ours_has_a_right_to_it() -> None:
    node = ("a1", "batch*", "up", "0/8/0/8", "idle", "64000", "0", "8:1:1")
    rows = [node, ("a2", *node[1:]), ("a2", "wide", *node[2:])]

    def told(*queue: str) -> Idle:
        answers = (nodes(*rows), "\n".join(queue), "", "", "", "")
        return idle(Slurm().read_figures(tuple(map(said, answers))))

    job = ("7", "PENDING", "40", "1:00:00", "9", "Resources", "(null)")
    assert (told(queue_row(*job)).startable, told(queue_row(*job)).why) == (
        0,
        "16 idle, but 1 job of others waits for 40 processors",
    )
    assert told(queue_row(*job, partition="wide")).startable == 8
    assert told(queue_row(*job, wanted="a[2-4]")).startable == 8
    assert told(queue_row(*job, partition="other")).startable == 16
    tiers = "PartitionName=batch PriorityTier=10\nPartitionName=wide PriorityTier=TIER\n"
    for tier, startable in (("9", 16), ("10", 8)):
        row = queue_row(*job, partition="wide")
        answers = (nodes(*rows), row, tiers.replace("TIER", tier), "", "", "")
        figures = Slurm().read_figures(tuple(map(said, answers)))
        assert idle(figures).startable == startable
    held = (*job[:5], "JobHeldUser", "(null)")
    assert told(queue_row(*held)) == told()


def test_our_own_claim_that_waits_is_no_job_of_others() -> None:
    assert idle(several(), waiting("14", 4)).foreign_queued == 0
    found = idle(several(), waiting("14", 4))
    assert (found.startable, found.why) == (6, "4 idle, but claims of Koala wait for them")


@pytest.mark.parametrize(
    ("cpus", "state", "why"),
    [
        ("8/0/0/8", "allocated", "all 8 are in use"),
        ("0/0/8/8", "down*", "8 on nodes that are down or drained"),
        ("0/8/0/8", "idle+maintenance", "8 reserved, or in maintenance"),
        ("0/8/0/8", "idle+reboot_issued", "8 on nodes that reboot or power down"),
        ("2/6/0/8", "mixed+completing", "2 are in use; 6 on nodes that still end jobs (epilog)"),
        ("0/8/0/8", "idle+powered_down", "8 are powered down (they wake in about 10 min)"),
    ],
)
def test_the_reason_why_no_more_is_idle(cpus: str, state: str, why: str) -> None:
    row = ("n1", "batch*", "up", cpus, state, "64000", "0", "8:1:1")
    config = "ResumeTimeout           = 600 sec\n"
    partition = "PartitionName=batch\n"
    answers = tuple(map(said, (nodes(row), "", partition, config, "", "")))
    figures = Slurm().read_figures(answers)
    found = idle(figures)
    assert (found.why, bool(found.startable)) == (why, "powered" in why)
    assert figures.is_settling == ("completing" in state)


@pytest.mark.parametrize(
    ("told", "startable", "rooms"),
    [
        ("ReservationName=x Nodes=n1 TRES=cpu=4 State=ACTIVE", 3, (("x", 3),)),
        ("ReservationName=x Nodes=n1 TRES=cpu=8 State=ACTIVE", 0, (("x", 6),)),
        (
            "ReservationName=x Nodes=n1 TRES=cpu=4 State=ACTIVE\n"
            "ReservationName=y Nodes=n1 Flags=OVERLAP TRES=cpu=4 State=ACTIVE",
            *(0, (("x", 3), ("y", 4))),
        ),
        (
            "ReservationName=x Nodes=n1 TRES=cpu=4 State=ACTIVE\n"
            "ReservationName=y Nodes=n1 Flags=OVERLAP TRES=cpu=8 State=ACTIVE",
            *(0, (("x", 0), ("y", 6))),
        ),
        ("ReservationName=x Nodes=n1 TRES=cpu=8 StartTime=2000 State=INACTIVE", 0, (("x", 0),)),
        (
            "ReservationName=x Nodes=n1 Flags=FLEX TRES=cpu=4 StartTime=2000 State=INACTIVE",
            *(3, (("x", 3),)),
        ),
        ("ReservationName=koala-a-j1.1.0.1 Nodes=n1 TRES=cpu=4 State=ACTIVE", 2, ()),
        ("No reservations in the system", 0, ()),
    ],
    ids=["part", "whole", "overlap", "taken", "later", "open", "booked", "hidden"],
)
def test_what_is_reserved_of_a_node_is_idle_for_claims_in_it_and_the_rest_for_others(
    told: str, startable: int, rooms: tuple[tuple[str, int], ...]
) -> None:
    """A job in it has one of two processors that are in use."""
    row = ("n1", "batch*", "up", "2/6/0/8", "mixed+reserved", "64000", "0", "8:1:1")
    job = listed("7", "RUNNING", reservation="x")
    answers = tuple(map(said, (nodes(row), job, "", "", "", f"{told}\n")))
    found = idle_of(Slurm().read_figures(answers), [], allowed=8, now=1000.0)
    assert (found.processors, found.startable, found.reservations) == (8, startable, rooms)
    assert ("booked for later" if "INACTIVE" in told else "reserved") in found.why
    is_taken = {("x", 0), ("y", 6)} == set(rooms)
    assert ("x: reservation y has its machines, too" in found.why) is is_taken


def test_reservations_that_other_accounts_alone_may_see_are_unknown() -> None:
    row = ("n1", "batch*", "up", "0/8/0/8", "idle", "64000", "0", "8:1:1")
    config = "PrivateData             = jobs,reservations\n"
    answers = tuple(map(said, (nodes(row), "", "", config, "", "No reservations\n")))
    assert Slurm().read_figures(answers).reservations is None, "claims run as their owners"
    assert Slurm(user="koala").read_figures(answers).reservations == ()


def test_a_partition_that_is_down_is_the_reason() -> None:
    row = ("n1", "batch*", "down", "0/8/0/8", "idle", "64000", "0", "8:1:1")
    figures = Slurm().read_figures(tuple(map(said, (nodes(row), "", "", "", "", ""))))
    assert idle(figures).why == "8 of partition batch, which is down"


def test_what_is_planned_for_jobs_that_are_hidden_is_not_idle() -> None:
    row = ("n1", "batch*", "up", "0/8/0/8", "idle+planned", "64000", "0", "8:1:1")
    hidden = "PrivateData             = jobs,users\n"
    for config, startable in ((hidden, 0), ("PrivateData = none\n", 8)):
        figures = Slurm().read_figures(tuple(map(said, (nodes(row), "", "", config, "", ""))))
        assert idle(figures).startable == startable
    figures = Slurm().read_figures(tuple(map(said, (nodes(row), "", "", hidden, "", ""))))
    assert "does not show" in idle(figures).why
    assert idle(figures, waiting("3", 2)).startable == 6  # perhaps it is planned for ours


def test_the_limit_of_koala_at_a_site_is_the_reason() -> None:
    mine = TrackedClaim(
        row=ClaimRow(claim="j1/1/0/1", number="3", processors=4), state=JobState.RUNNING
    )
    found = idle(Figures(processors=8, idle=4, queued_jobs=0), mine, allowed=4)
    assert (found.startable, found.why) == (0, "Koala may use 4 processors, and has them all")


async def test_figures_that_were_asked_for_are_followed_by_each_change(
    cluster: Cluster, tmp_path: Path, placeholder: Placeholder
) -> None:
    """A claim is there only when the agent asks by itself: the next poll finds what it had reported
    before, and must report it again."""
    settings = BatchSettings(
        processors=16, state_directory=tmp_path, scope="ab", poll_s=0.01, figures_s=0.5
    )
    witness = Witness()
    manager = BatchManager(settings, Slurm(), cluster, on_report=witness, clock=cluster.clock)
    async with serving(manager):
        await witness.until(Idle, lambda told: told.startable == 16)
        await manager.submit(placeholder)
        assert (await manager.idle()).startable == 12
        witness.reports.clear()
        cluster.job("1").state = "COMPLETED"
        await witness.until(Idle, lambda told: told.startable == 16, within_s=10)


async def test_processors_of_a_claim_that_is_over_are_no_others(
    serve: Serve, cluster: Cluster, placeholder: Placeholder
) -> None:
    """Its job is listed for as long as the site cleans up behind it."""
    async with serve() as (manager, witness):
        await manager.submit(placeholder)
        cluster.job("1").state = "RUNNING"
        cluster.cpus = "6/10/0/16"  # two are somebody's
        await witness.running(CLAIM)
        manager.note_left(CLAIM, is_gone=True)
        await cluster.polls(10)
        told = await manager.idle()
        assert (told.local_processors, told.idle) == (2, 10)


async def test_a_claim_that_leaves_its_reservation_during_a_look_is_idle_there_alone(
    serve: Serve, cluster: Cluster, placeholder: Placeholder
) -> None:
    """The listing still has it, the nodes have not."""
    cluster.reservations = "ReservationName=course Nodes=n1 TRES=cpu=8 State=ACTIVE\n"
    cluster.cpus = "12/4/0/16"
    async with serve() as (manager, witness):
        await manager.submit(replace(placeholder, resources=Resources(reservation="course")))
        job = cluster.job("1")
        job.state, job.cpus, job.reservation = "RUNNING", "4", "course"
        await witness.until(Idle, lambda told: told.reservations == (("course", 4),))
        witness.reports.clear()

        def leave() -> None:
            manager.note_left(CLAIM, is_gone=True)
            cluster.cpus = "8/8/0/16"

        cluster.before_figures = leave
        await cluster.polls(8)
        told = [one for one in witness.reports if isinstance(one, Idle)]
        assert {(one.startable, one.reservations) for one in told} == {(0, (("course", 8),))}


@pytest.mark.parametrize(
    ("shape", "partition", "config", "unit", "found"),
    [
        ("1:8:1", " OverSubscribe=EXCLUSIVE", "", 8, (16, 8)),
        ("1:8:1", "", "SelectType              = select/linear\n", 8, (16, 8)),
        ("1:4:2", "", "SelectTypeParameters    = CR_CORE\n", 2, (16, 12)),
        ("2:2:2", "", "SelectTypeParameters    = CR_SOCKET_MEMORY\n", 4, (16, 8)),
        ("2:4:1", "", "SelectTypeParameters    = CR_CPU\n", 0, (16, 13)),
        (
            "2:4:1",
            " SelectTypeParameters=CR_SOCKET",
            "SelectTypeParameters = CR_CORE\n",
            4,
            (16, 12),
        ),
        ("2:4:1", " MaxCPUsPerNode=4", "SelectTypeParameters = CR_CORE\n", 0, (8, 4 + 1)),
        (
            *("2:4:1", " DefMemPerNode=60000", "SelectTypeParameters = CR_CPU_MEMORY\n", 0),
            (16, 8),
        ),
    ],
)
def test_processors_that_are_given_as_a_whole(
    shape: str, partition: str, config: str, unit: int, found: tuple[int, int]
) -> None:
    """Three of the sixteen are used, and 16 of 64 GB beside them."""
    rows = [
        ("n1", "batch*", "up", "3/5/0/8", "mixed", "64000", "16000", shape),
        ("n2", "batch*", "up", "0/8/0/8", "idle", "64000", "0", shape),
    ]
    partitions = f"PartitionName=batch{partition}\n"
    answers = tuple(map(said, (nodes(*rows), "", partitions, config, "", "")))
    figures = Slurm().read_figures(answers)
    assert (figures.processors, figures.idle) == found
    assert (figures.resources.unit, figures.resources.host_processors) == (unit, 8)


async def test_what_slurm_gave_to_a_claim_is_what_it_takes(
    serve: Serve, cluster: Cluster, placeholder: Placeholder
) -> None:
    async with serve() as (manager, witness):
        await manager.submit(placeholder)  # of four processors
        job = cluster.job("j1.1.0.1")
        job.state, job.cpus = "RUNNING", "8"
        told = await witness.until(Idle, lambda idle: bool(idle.taken))
        assert told.taken == (Taken(claim=ClaimId(placeholder.claim), processors=8),)


async def test_processors_are_idle_for_claims_that_end_before_who_waits_can_start(
    serve: Serve, cluster: Cluster
) -> None:
    """Sixteen processors, of which four are used for ten minutes and four for an hour. The head
    needs twelve: until it starts, eight are idle. Two jobs are of other nodes."""
    rows = [
        queue_row("80", "RUNNING", "4", "10:00", "0", "None", "(null)", nodes="n1"),
        queue_row("81", "RUNNING", "4", "1:00:00", "0", "None", "(null)", nodes="n1"),
        queue_row("82", "RUNNING", "9", "1:00", "0", "None", "(null)", nodes="m1"),
        queue_row("90", "PENDING", "12", "2:00:00", "9", "Resources", "(null)"),
        queue_row("91", "PENDING", "16", "2:00:00", "8", "Priority", "(null)", partition="gpu"),
    ]
    cluster.cpus = "8/8/0/16"
    cluster.queue = "\n".join(rows)
    async with serve() as (_, witness):
        told = await witness.until(Idle, lambda idle: bool(idle.holes))
        assert (told.idle, told.startable) == (8, 0)
        assert [(hole.processors, hole.for_s) for hole in told.holes] == [(8, 540.0)]
        assert told.why == (
            "8 idle, but 1 job of others waits for 12 processors;"
            " 8 of them for jobs that end within 9 min"
        )
        cluster.now += 100
        await witness.until(Idle, lambda idle: [h.for_s for h in idle.holes] == [420.0])
