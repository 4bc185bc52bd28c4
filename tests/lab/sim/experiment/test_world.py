"""An experiment's world, against figure 1 of the paper and others worked out by hand."""

from __future__ import annotations

from dataclasses import replace

import pytest

from koala.core.model.events import SiteReported
from koala.core.model.values import SiteName
from koala.lab.sim.experiment.setting import (
    FaultRates,
    Links,
    LocalJob,
    NoFaults,
    RandomFaults,
    Submission,
)
from koala.queue_model import Discipline
from tests.harness.builders import HIGH
from tests.lab.sim.experiment.small import Watched, local, outage, same, site, submission

ARMING_S = 0.05
"""The estimate of a copy is exact, so it ends at the JST, and only then the barrier is armed."""


def far(name: str = "j1", at: float = 10.0, processors: int = 8) -> Submission:
    """Its file of 1000 bytes is at a site too small for it: FTT = 100 s."""
    return submission(
        name, at, processors, run_s=50.0, file_bytes=1000, replicas=("home",), priority=HIGH
    )


# --- figure 1 ---


def test_the_timeline_of_a_job_that_meets_no_trouble() -> None:
    """JPT = 10, FTT = 100, JST = 110, JCT = 10 + 0.75 * 100."""
    world = Watched([site("home", 1), site("delft", 8)], far())
    job = world.play()["j1"]
    assert (job.placed_at, job.start_at, job.claimed_at) == (10.0, 110.0, 85.0)
    assert (job.started_at, job.ended_at) == (110.0 + ARMING_S, 160.0 + ARMING_S)
    assert job.waiting_s == 100.0 + ARMING_S
    assert job.processor_gained_s == 8 * 75.0
    assert job.processor_wasted_s == pytest.approx(8 * (25.0 + ARMING_S))
    assert (job.extra_claiming_tries, job.start_delay_s) == (0, 0.0)
    assert job.start_lateness_s == pytest.approx(ARMING_S)
    assert (job.phase, job.sites, job.is_coallocated) == ("Finished", ("delft",), False)


# --- the local manager ---


def test_a_claim_that_waits_is_refused_after_the_grace_time_and_withdrawn() -> None:
    """A message takes 0.4 s, so the scheduler knows too late that a local user was first."""
    world = Watched(
        [site("home", 1), site("delft", 8, local(84.9, 8, 60.0), latency_s=0.4, grace_s=3.0)], far()
    )
    (job,) = world.run().jobs  # by the scheduler's clock a grant is 0.4 s late
    refused = [at for at, event, _ in world.seen if "REFUSED" in repr(event)]
    assert refused == pytest.approx([85.0 + 0.4 + 3.0 + 0.4])
    assert job.phase == "Finished"
    assert world.grid.sites[SiteName("delft")].queue.idle == 8


def test_local_users_wait_while_claims_hold_processors() -> None:
    users = local(90.0, 4, 10.0)
    late = submission("late", 300.0, 8, run_s=1.0)
    world = Watched([site("home", 1), site("delft", 8, users)], far(), late)
    world.play()
    assert world.grid.sites[SiteName("delft")].users.waited_s == pytest.approx(70.0 + ARMING_S)


def test_a_job_beyond_the_site_is_counted_and_left_out() -> None:
    world = Watched([site("home", 1), site("delft", 8, local(1.0, 9, 10.0))], far())
    world.play()
    users = world.grid.sites[SiteName("delft")].users
    assert (users.submitted, users.too_large, users.started) == (1, 1, 0)


def test_all_that_ends_and_arrives_at_an_instant_is_seen_by_one_pass() -> None:
    """EASY. At 15 the fourth job arrives before the second ends: looked at alone it would be
    backfilled, and the third, which waits for all 6 processors, would start at 20."""
    jobs = (
        LocalJob(0.0, 6, 5.0, 5.0),
        LocalJob(1.0, 4, 10.0, 100.0),
        LocalJob(2.0, 6, 7.0, 7.0),
        LocalJob(15.0, 2, 5.0, 5.0),
    )
    place = replace(site("delft", 6, *jobs), discipline=Discipline.EASY)
    world = Watched([place], submission("late", 100.0, 1, run_s=1.0))
    world.play()
    users = world.grid.sites[SiteName("delft")].users
    assert (users.started, users.waited_s) == (4, 0.0 + 4.0 + 13.0 + 7.0)


def test_a_claim_whose_file_does_not_come_is_given_back_at_its_hold_deadline() -> None:
    """Two copies share the link, so that of j1 takes until 160; it was claimed at 85 for 50 s."""
    world = Watched(
        [site("home", 1), site("delft", 8)], far("j1", 10.0, 4), far("j2", 60.0, 4),
        links=Links(is_shared=True), parameters={"hold_s": 50.0},
    )  # fmt: skip
    one, _ = world.run(until=200.0).jobs
    held = [at for at, event, _ in world.seen if "EndKind.HOLD" in repr(event)]
    assert held[0] == 135.0
    assert (one.attempts, one.failures, one.phase) == (1, 0, "Placing")


# --- trouble ---


def test_a_site_that_breaks_down_swallows_jobs_until_it_is_found_unusable() -> None:
    """j1 runs at both; delft breaks down at 30. Its errors: j1's component, and a claim each at 240
    and 480. From then on the scheduler counts 4 processors, and j1 waits for the repair."""
    job = submission("j1", 10.0, 4, 4, run_s=50.0, priority=HIGH)
    faults = NoFaults(outages=(outage("delft", 30.0, until=1500.0),))
    world = Watched([site("delft", 4), site("leiden", 4)], job, faults=faults, bin_s=60.0)
    found = world.play()["j1"]
    assert (found.failures, found.attempts, found.placed_at) == (3, 4, 1680.0)
    spans = world.grid.usage.spans()
    assert [round(spans[index].processors) for index in (0, 7, 9, 24, 26)] == [8, 8, 4, 4, 8]


def test_copies_from_a_site_that_is_down_fail_until_it_is_found_unusable() -> None:
    """The copy under way at 40 and those of 240 and 480; the next, at 960, comes from leiden."""
    job = submission(
        "j1", 10.0, 8, run_s=50.0, file_bytes=1000, replicas=("home", "leiden"), priority=HIGH
    )
    faults = NoFaults(outages=(outage("home", 40.0),))
    world = Watched([site("home", 1), site("delft", 8), site("leiden", 2)], job, faults=faults)
    found = world.play()["j1"]
    assert (found.attempts, found.failures, found.placed_at) == (4, 0, 960.0)
    assert found.ended_at == pytest.approx(960.0 + 100.0 + ARMING_S + 50.0)


def test_an_outage_takes_local_jobs_with_it() -> None:
    """One runs, one waits, and one is submitted to a site that is down."""
    users = (local(1.0, 2, 1e9), local(2.0, 1, 5.0), local(60.0, 1, 5.0), local(200.0, 1, 5.0))
    faults = NoFaults(outages=(outage("delft", 50.0, until=100.0),))
    world = Watched([site("delft", 2, *users), site("leiden", 1)],
                    submission("j1", 300.0, 1, run_s=1.0), faults=faults)  # fmt: skip
    world.play()
    found = world.grid.sites[SiteName("delft")].users
    assert (found.submitted, found.started, found.finished, found.lost) == (4, 2, 1, 3)


def test_a_run_that_is_broken_off_counts_the_local_jobs_that_its_down_site_lost_by_then() -> None:
    """They are not simulated one by one, but the last of them is still the end of the run."""
    users = (local(60.0, 1, 5.0), local(70.0, 1, 5.0), local(90.0, 1, 5.0))
    faults = NoFaults(outages=(outage("delft", 50.0, until=1e9),))
    world = Watched([site("delft", 2, *users), site("leiden", 1)],
                    submission("j1", 300.0, 1, run_s=1.0), faults=faults)  # fmt: skip
    report = world.run(until=80.0)
    found = report.users[SiteName("delft")]
    assert (found.submitted, found.lost, report.ended_at) == (2, 2, 70.0)


def test_faults_come_at_their_rates_and_from_streams_of_their_own() -> None:
    bad, good = SiteName("bad"), SiteName("good")
    rates = {bad: FaultRates(claim=0.3, component=0.1), good: FaultRates()}
    faults, again = RandomFaults(7, rates), RandomFaults(7, rates)
    found = [(faults.claim_errs(bad, 0.0), faults.fails_after(bad, 10.0, 0.0)) for _ in range(4000)]
    assert sum(errs for errs, _ in found) / 4000 == pytest.approx(0.3, abs=0.03)
    lost = [after for _, after in found if after is not None]
    assert len(lost) / 4000 == pytest.approx(0.1, abs=0.02)
    assert min(lost) < 1.0
    assert 9.0 < max(lost) < 10.0
    assert not faults.claim_errs(good, 0.0)
    # Claims drawn in between do not change what components meet.
    assert [again.fails_after(bad, 10.0, 0.0) for _ in range(4000)] == [after for _, after in found]


# --- links ---


def copies(world: Watched) -> list[float]:
    """List the ends of copies."""
    return [at for at, event, _ in world.seen if "TransferFinished" in repr(event)]


@pytest.mark.parametrize(("is_shared", "ends"), [(False, [110.0, 160.0]), (True, [160.0, 210.0])])
def test_copies_on_a_shared_link_get_equal_parts_of_it(
    *, is_shared: bool, ends: list[float]
) -> None:
    """1000 bytes each at 10 a second, begun at 10 and 60. Shared: from 60 on 5 a second each; at
    160 the first is over, and the second has 500 to go."""
    world = Watched(
        [site("home", 1), site("delft", 8)], far("j1", 10.0, 4), far("j2", 60.0, 4),
        links=Links(is_shared=is_shared),
    )  # fmt: skip
    jobs = world.play()
    assert copies(world) == ends
    if is_shared:  # the barrier stays closed until the file is there
        assert jobs["j1"].start_lateness_s == pytest.approx(50.0 + ARMING_S)


# --- what is measured ---


def test_usage_is_the_mean_over_each_bin() -> None:
    """A local user on 2 of 8 from 30 to 90; held from 85, running from 110.05 to 160.05."""
    world = Watched(
        [site("home", 1), site("delft", 8, local(30.0, 2, 60.0))], far(processors=4), bin_s=100.0
    )
    world.play()
    first, second = world.grid.usage.spans()
    assert (first.local, first.held, first.running) == (2 * 0.6, 4 * 0.15, 0.0)
    assert second.begin_at == 100.0
    same(second.processors, 9.0)
    same(second.duration_s, 60.0 + ARMING_S)
    same(second.held * second.duration_s, 4 * (10.0 + ARMING_S))
    same(second.running * second.duration_s, 4 * 50.0)


@pytest.mark.parametrize(
    ("scan", "told_at"), [("change", [80.0, 100.0]), ("interval", [85.0, 103.75])]
)
def test_sites_report_at_once_or_when_somebody_wants_to_know(
    scan: str, told_at: list[float]
) -> None:
    """With scans at intervals a report starts nothing; at the claiming tries it is there."""
    world = Watched(
        [site("home", 1), site("delft", 8, local(80.0, 8, 20.0))], far(), parameters={"scan": scan}
    )
    world.play()
    reports = [(at, e.idle) for at, e, _ in world.seen if isinstance(e, SiteReported)]
    assert reports[:2] == [(told_at[0], 0), (told_at[1], 8)]


def test_a_run_that_is_broken_off_says_what_is_left() -> None:
    world = Watched([site("home", 1), site("delft", 8)], far(), far("j2", 2000.0))
    report = world.run(until=100.0)
    assert (report.unfinished, len(report.jobs), report.ended_at <= 100.0) == (1, 1, True)
