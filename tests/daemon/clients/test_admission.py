"""A job that no waiting helps is refused at submission, with what is there instead."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import pytest

from koala.common.protocol.messages import SiteResources
from koala.core.digest import digest
from koala.core.model.events import SiteDisconnected, SiteDrained, SiteRegistered, SiteReported
from koala.core.model.grid import SiteFacts
from koala.core.model.job_spec import ComponentSpec, Deadline, InputFile, JobSpec, Split, StartType
from koala.core.model.parameters import Parameters
from koala.core.model.values import SiteName, UserName
from koala.core.scheduler import Scheduler
from koala.daemon.clients.admission import (
    Verdicts,
    bind_to_queue,
    check,
    check_deadline,
    warnings,
    with_progress,
)
from koala.errors import RejectedError, SpecError
from koala.policies import chosen
from tests.harness.builders import a_flexible_job

DELFT, LEIDEN = SiteName("delft"), SiteName("leiden")
NOBODY_LISTED: Mapping[SiteName, UserName | None] = {}


def grid(*, honours: Mapping[str, tuple[str, ...]] | None = None, **processors: int) -> Scheduler:
    """Sites with these processors, and what their managers act on; `adas` belongs to ada."""
    scheduler = Scheduler(Parameters(), chosen())
    for name, count in processors.items():
        owner = UserName("ada") if name == "adas" else None
        acts_on = (honours or {}).get(name, ())
        facts = SiteFacts(processors=count, owner=owner, honours=acts_on)
        scheduler.handle(SiteRegistered(site=SiteName(name), facts=facts, idle=count), 1.0)
    return scheduler


def job(*components: ComponentSpec, owner: str = "bob", quorum: int | None = None,
        file: InputFile | None = None) -> JobSpec:  # fmt: skip
    return JobSpec(components=components, owner=UserName(owner), quorum=quorum, input_file=file)


def part(
    processors: int, site: SiteName | None = None, start: StartType = StartType.STRICT
) -> ComponentSpec:
    return ComponentSpec(executable="x", processors=processors, site=site, start_type=start)


def test_without_any_site_everything_may_wait() -> None:
    check(job(part(10_000)), grid(), NOBODY_LISTED)
    check(job(part(1, DELFT)), grid(), NOBODY_LISTED)


def test_a_listed_site_that_never_came_may_be_large() -> None:
    check(job(part(100)), grid(delft=8), {DELFT: None, LEIDEN: None})
    check(job(part(100, LEIDEN)), grid(delft=8), {DELFT: None, LEIDEN: None})
    with pytest.raises(RejectedError, match="100"):
        check(job(part(100)), grid(delft=8), {DELFT: None, LEIDEN: UserName("ada")})


def test_a_total_that_no_split_can_have_is_refused_with_what_could_be_had() -> None:
    def total(processors: int, **bounds: Any) -> JobSpec:
        return a_flexible_job("j1", processors, **bounds).spec

    check(total(12), grid(delft=8, leiden=4), NOBODY_LISTED)
    check(total(20, least=8, is_malleable=True), grid(delft=8, leiden=4), NOBODY_LISTED)
    for spec, words in (
        (total(13), r"13 processors in at most 13 components .* at most 12 could be had \(delft 8"),
        (total(12, part_min=5), "at most 8 could be had"),
        (total(12, parts_max=1), "at most 8 could be had"),
        (total(12, part_min=9), "component 0 wants 9 processors: the largest site is delft with 8"),
        (total(9, component={"sites": (LEIDEN,)}), r"at most 4 could be had \(leiden 4\)"),
        (total(4, component={"sites": (SiteName("vu"),)}), "wants site 'vu'"),
    ):
        scheduler = grid(delft=8, leiden=4)
        before = digest(scheduler)
        with pytest.raises(RejectedError, match=words):
            check(spec, scheduler, NOBODY_LISTED)
        assert digest(scheduler) == before
    assert "have not registered" in check(total(13), grid(delft=8), {LEIDEN: None})[0]
    away = grid(delft=8, leiden=8)
    away.handle(SiteDisconnected(site=LEIDEN), 2.0)
    assert "leiden (disconnected, 8 processors)" in check(total(13), away, NOBODY_LISTED)[0]


def test_a_site_of_another_owner_is_not_there() -> None:
    scheduler = grid(delft=8, adas=64)
    check(job(part(64), owner="ada"), scheduler, NOBODY_LISTED)
    with pytest.raises(RejectedError, match="largest site is delft"):
        check(job(part(64)), scheduler, NOBODY_LISTED)
    with pytest.raises(RejectedError, match="known sites are delft"):
        check(job(part(1, SiteName("adas"))), scheduler, NOBODY_LISTED)


def test_a_site_that_takes_only_named_users_is_there_for_them() -> None:
    scheduler = grid(delft=8)
    facts = SiteFacts(processors=64, users=(UserName("ada"), UserName("bob")))
    scheduler.handle(SiteRegistered(site=LEIDEN, facts=facts, idle=64), 1.0)
    for owner in facts.users:
        check(job(part(64), owner=owner), scheduler, NOBODY_LISTED)
    for other in ("", "ad", "cas"):
        with pytest.raises(RejectedError, match="largest site is delft"):
            check(job(part(64), owner=other), scheduler, NOBODY_LISTED)


def test_an_unknown_or_too_small_fixed_site_is_refused() -> None:
    wrong = "wants site 'leidn': known sites are delft, leiden; did you mean leiden"
    with pytest.raises(RejectedError, match=wrong) as unknown:
        check(job(part(1, SiteName("leidn"))), grid(delft=8, leiden=4), NOBODY_LISTED)
    assert (unknown.value.component, unknown.value.site) == ("leidn", "leidn")
    with pytest.raises(RejectedError, match="wants 5 processors at leiden, which has 4") as small:
        check(job(part(5, LEIDEN)), grid(delft=8, leiden=4), NOBODY_LISTED)
    assert (small.value.site, small.value.wanted, small.value.had) == ("leiden", 5, 4)


def test_components_fixed_to_one_site_must_fit_together() -> None:
    scheduler = grid(delft=8)
    with pytest.raises(RejectedError, match="delft has 8 processors; the job wants 10 there"):
        check(job(part(5, DELFT), part(5, DELFT)), scheduler, NOBODY_LISTED)
    check(job(part(5, DELFT), part(5, DELFT), quorum=1), scheduler, NOBODY_LISTED)
    check(job(part(5, DELFT), part(5, DELFT, StartType.LOOSE)), scheduler, NOBODY_LISTED)


def test_an_unknown_progress_policy_is_refused_with_those_that_there_are() -> None:
    for name in (None, "free", "sq"):
        check(replace(job(part(1)), progress=name), grid(delft=8), NOBODY_LISTED)
    with pytest.raises(SpecError, match=r"progress = qs \(expected one of free, sq, sq-printed"):
        check(replace(job(part(1)), progress="qs"), grid(delft=8), NOBODY_LISTED)


def test_the_configured_progress_policy_is_that_of_jobs_that_name_none() -> None:
    scheduler = grid(delft=8)
    assert with_progress(job(part(1)), scheduler).progress is None
    scheduler.policies = chosen(progress="SQ")
    assert with_progress(job(part(1)), scheduler).progress == "sq"
    free = replace(job(part(1)), progress="free")
    assert with_progress(free, scheduler).progress == "free"


def test_a_deadline_that_is_past_is_refused_with_the_instant_from_which_on_it_is_not() -> None:
    now = 86_400.0 * 365
    for deadline in (Deadline(at=now + 1e9), Deadline(after_s=1.0), None):
        check_deadline(replace(job(part(1)), deadline=deadline), now)
    past = replace(job(part(1)), deadline=Deadline(at=now - 60))
    text = "deadline 1970-12-31T23:59:00+00:00 lies in the past; now it is 1971-01-01T00:00:00"
    with pytest.raises(SpecError, match=text.replace("+", r"\+")):
        check_deadline(past, now)
    for none in (Deadline(at=now), Deadline(after_s=0.0)):
        with pytest.raises(SpecError, match="in the past; now it is 1971-01-01T00:00:00"):
            check_deadline(replace(job(part(1)), deadline=none), now)


def test_a_component_without_a_barrier_cannot_wait_for_a_deadline() -> None:
    spec = replace(job(part(1), part(1, start=StartType.NONE)), deadline=Deadline(after_s=60.0))
    with pytest.raises(SpecError, match="component 1 has no barrier"):
        check_deadline(spec, 0.0)
    check_deadline(replace(spec, deadline=None), 0.0)


@pytest.mark.parametrize("hold_s", [0.0, 0.6, 2.005])
def test_a_hold_in_which_no_start_can_be_agreed_on_is_refused(hold_s: float) -> None:
    with pytest.raises(RejectedError, match=r"expected more than 2\.005 s, 0\.0334 minutes\)"):
        check(replace(job(part(1)), max_hold_s=hold_s), grid(delft=8), NOBODY_LISTED)
    check(replace(job(part(1)), max_hold_s=2.1), grid(delft=8), NOBODY_LISTED)


def asking(site: SiteName | None = None, label: str | None = None) -> ComponentSpec:
    """A component that asks for everything that only a local manager can give."""
    return ComponentSpec(
        executable="x", site=site, label=label, queue="long", project="ocean", hosts=1,
        memory_min_mb=100,
    )  # fmt: skip


def test_what_no_local_manager_acts_on_is_told_at_submission() -> None:
    scheduler = grid(delft=8, leiden=8, honours={"leiden": ("queue", "project")})
    fixed = job(asking(DELFT, "left"), asking(LEIDEN), asking(DELFT, "right"), part(1, DELFT))
    assert warnings(fixed, scheduler, NOBODY_LISTED) == (
        "hostCount is ignored: no site where component left, leiden, right may run acts on it",
        "minMemory is ignored: no site where component left, leiden, right may run acts on it",
        "queue is ignored: no site where component left, right may run acts on it",
        "project is ignored: no site where component left, right may run acts on it",
    )
    told = warnings(job(asking()), scheduler, NOBODY_LISTED)
    assert [warning.partition(" ")[0] for warning in told] == ["hostCount", "minMemory"]


def test_a_job_submitted_at_a_local_queue_runs_there_and_nowhere_else() -> None:
    spec = bind_to_queue(job(part(4)), DELFT)
    assert (spec.queue, spec.components[0].site) == (DELFT, DELFT)
    check(spec, grid(delft=8), NOBODY_LISTED)
    wide = bind_to_queue(job(part(4), part(4)), DELFT)
    assert (wide.queue, wide.components[0].site) == (DELFT, None)
    with pytest.raises(SpecError, match=r"queue 'leiden': .* runs at delft .* and nowhere else"):
        bind_to_queue(job(part(4, DELFT)), LEIDEN)


def test_a_queue_of_no_site_is_refused_with_those_there_are() -> None:
    scheduler = grid(delft=8, adas=8)
    for spec in (job(part(1)), job(part(1), part(1))):
        with pytest.raises(RejectedError, match=r"queue 'leiden' is of no site: known .* delft$"):
            check(bind_to_queue(spec, LEIDEN), scheduler, NOBODY_LISTED)
        check(bind_to_queue(spec, LEIDEN), scheduler, {LEIDEN: None})


def test_more_components_than_distinct_sites_are_refused() -> None:
    scheduler = grid(delft=8, leiden=4)
    wide = job(part(1), part(1), part(1))
    apart = replace(wide, distinct=True)
    with pytest.raises(RejectedError, match=r"^the job needs 3 different sites: there are 2$"):
        check(apart, scheduler, NOBODY_LISTED)
    check(apart, scheduler, {SiteName("vu"): None})
    check(replace(apart, quorum=2), scheduler, NOBODY_LISTED)
    check(wide, scheduler, NOBODY_LISTED)
    scheduler.policies = chosen(placement="WF-distinct")
    with pytest.raises(RejectedError, match="may have one component of a job, and all 2 have one"):
        check(wide, scheduler, NOBODY_LISTED)
    with pytest.raises(RejectedError, match="its site delft has another component"):
        check(job(part(1, DELFT), part(1, DELFT)), scheduler, NOBODY_LISTED)
    check(wide, scheduler, {SiteName("vu"): None})
    check(job(part(1), part(1)), scheduler, NOBODY_LISTED)


# --- all components together, on an empty grid ---


def test_components_that_never_fit_together_are_refused_with_the_numbers() -> None:
    """Each would fit by itself."""
    wide = job(*[part(144)] * 3)
    grid_of_five = grid(vu=144, delft=72, leiden=72, utrecht=72, uva=72)
    with pytest.raises(
        RejectedError,
        match=r"3 x 144 = 432 processors\) do not fit into 5 idle sites: the largest is vu with"
        r" 144, all have 432",
    ):
        check(wide, grid_of_five, NOBODY_LISTED)
    for three in (grid(a=12, b=12, c=10), grid(a=23, b=12)):
        with pytest.raises(RejectedError, match="3 x 12 = 36 processors"):
            check(job(*[part(12)] * 3), three, NOBODY_LISTED)
    assert check(job(*[part(12)] * 3), grid(a=12, b=12, c=12), NOBODY_LISTED) == ()
    assert check(job(*[part(12)] * 3), grid(a=24, b=12), NOBODY_LISTED) == ()


def test_a_site_takes_no_more_components_than_it_has_slots() -> None:
    scheduler = grid(leiden=4)
    facts = SiteFacts(processors=64, slots=1)
    scheduler.handle(SiteRegistered(site=DELFT, facts=facts, idle=64), 1.0)
    assert check(job(part(8), part(4)), scheduler, NOBODY_LISTED) == ()
    with pytest.raises(RejectedError, match="delft 64 for one component"):
        check(job(part(8), part(8)), scheduler, NOBODY_LISTED)


def test_a_quorum_and_loose_components_need_no_more_than_they_start_with() -> None:
    scheduler = grid(delft=8)
    assert check(job(*[part(8)] * 3, quorum=1), scheduler, NOBODY_LISTED) == ()
    with pytest.raises(RejectedError, match="of which it needs 2, do not fit"):
        check(job(*[part(8)] * 3, quorum=2), scheduler, NOBODY_LISTED)
    loose = [part(8, start=StartType.LOOSE), part(8, start=StartType.NONE)]
    assert check(job(part(8), *loose), scheduler, NOBODY_LISTED) == ()
    with pytest.raises(RejectedError, match="of which it needs 2, do not fit"):
        check(job(part(8), part(8), *loose), scheduler, NOBODY_LISTED)


def test_an_optional_component_that_no_site_can_take_is_left_out_with_a_warning() -> None:
    for spec in (job(part(8), part(9), quorum=1), job(part(8), part(9, start=StartType.LOOSE))):
        (said,) = check(spec, grid(delft=8), NOBODY_LISTED)
        assert said == (
            "component 1 wants 9 processors: the largest site is delft with 8: it will not take"
            " part"
        )


def test_a_job_that_fits_only_with_sites_that_are_away_is_accepted_with_a_warning() -> None:
    scheduler = grid(delft=8, leiden=8, vu=4)
    scheduler.handle(SiteDisconnected(site=DELFT), 2.0)
    assert check(job(part(8), part(4)), scheduler, NOBODY_LISTED) == ()
    (said,) = check(job(part(8), part(8)), scheduler, NOBODY_LISTED)
    assert "2 x 8 = 16 processors) do not fit into 2 idle sites" in said
    assert said.endswith(
        "the job waits for sites that cannot be used now: delft (disconnected, 8 processors)"
    )
    scheduler.handle(SiteDrained(site=LEIDEN, by=UserName("ann")), 3.0)
    (said,) = check(job(part(8)), scheduler, NOBODY_LISTED)
    assert said.endswith("delft (disconnected, 8 processors), leiden (drained, 8 processors)")
    with pytest.raises(RejectedError, match="3 x 8"):
        check(job(part(8), part(8), part(8)), scheduler, NOBODY_LISTED)


def test_what_the_policy_does_not_find_though_it_is_there_is_a_warning() -> None:
    (said,) = check(job(part(5), part(4), part(4)), grid(delft=8, leiden=5), NOBODY_LISTED)
    assert said.startswith(
        "the placement policy in force, CF, finds no place for the job even when nothing else runs"
        " (component 2: largest idle site is delft with 3)"
    )


def test_verdicts_are_kept_until_the_grid_is_another_one() -> None:
    scheduler, kept = grid(delft=8), Verdicts()
    wide, narrow = job(part(8), part(8)), job(part(8))
    for _ in range(2):
        with pytest.raises(RejectedError):
            check(wide, scheduler, NOBODY_LISTED, kept.valid(scheduler))
        assert check(narrow, scheduler, NOBODY_LISTED, kept.valid(scheduler)) == ()
    assert check(wide, scheduler, {LEIDEN: None}, kept.valid(scheduler)) != ()
    scheduler.handle(SiteRegistered(site=LEIDEN, facts=SiteFacts(processors=8), idle=8), 2.0)
    assert check(wide, scheduler, NOBODY_LISTED, kept.valid(scheduler)) == ()
    elsewhere = job(replace(part(8), sites=(SiteName("vu"),)), part(8))
    with pytest.raises(RejectedError, match="wants site 'vu'"):
        check(elsewhere, scheduler, NOBODY_LISTED, kept.valid(scheduler))
    scheduler.handle(SiteDisconnected(site=LEIDEN), 3.0)
    assert check(wide, scheduler, NOBODY_LISTED, kept.valid(scheduler)) != ()
    scheduler.handle(SiteRegistered(site=LEIDEN, facts=SiteFacts(processors=4), idle=4), 4.0)
    with pytest.raises(RejectedError):
        check(wide, scheduler, NOBODY_LISTED, kept.valid(scheduler))


def with_resources(**gpus: int) -> Scheduler:
    """Sites of eight processors with so many GPUs."""
    scheduler = Scheduler(Parameters(), chosen())
    for name, count in gpus.items():
        facts = SiteFacts(processors=8, resources=SiteResources(gpus=count, is_complete=True))
        scheduler.handle(SiteRegistered(site=SiteName(name), facts=facts, idle=8), 1.0)
    return scheduler


def test_more_gpus_than_any_site_has_are_refused_with_the_numbers() -> None:
    sites = with_resources(delft=4, leiden=0)
    check(job(replace(part(1), gpus=4)), sites, NOBODY_LISTED)
    with pytest.raises(
        RejectedError, match="component 0 needs 5 GPUs; delft has 4 GPUs, leiden has no GPUs"
    ):
        check(job(replace(part(1), gpus=5)), sites, NOBODY_LISTED)
    with pytest.raises(RejectedError, match="component leiden needs 1 GPU; leiden has no GPUs"):
        check(job(replace(part(1, LEIDEN), gpus=1)), sites, NOBODY_LISTED)
    with pytest.raises(RejectedError, match="takes no constraint"):
        check(job(replace(part(1), constraint="ib")), sites, NOBODY_LISTED)


def test_a_job_with_gpus_waits_for_a_site_that_has_not_told_of_them_yet() -> None:
    """An agent registers before its batch system has answered. Its report ends kept verdicts."""
    sites, kept = Scheduler(Parameters(), chosen()), Verdicts()
    sites.handle(SiteRegistered(site=LEIDEN, facts=SiteFacts(processors=8), idle=8), 1.0)
    two = replace(part(1), gpus=2)
    for wide in (job(two), job(replace(part(1, LEIDEN), gpus=2)), job(two, two)):
        warnings = check(wide, sites, NOBODY_LISTED, kept.valid(sites))
        assert "leiden has not told its GPUs yet: it waits" in warnings[0]
    sites.handle(SiteReported(site=LEIDEN, idle=8, through=0), 2.0)
    with pytest.raises(RejectedError, match="component 0 needs 2 GPUs; leiden has no GPUs"):
        check(job(two), sites, NOBODY_LISTED, kept.valid(sites))


def test_a_job_waits_for_its_reservation_at_a_site_that_may_have_it_later() -> None:
    """A flexible one does, too. The report that has it ends kept verdicts."""
    sites, kept = grid(delft=8, leiden=8, honours={"leiden": ("reservation",)}), Verdicts()
    course = replace(part(2), reservation="course")
    split = Split(total=2, least=2, part_max=8, part_min=1, parts_max=2)
    flexible = replace(job(course), split=split)
    sites.handle(SiteReported(site=LEIDEN, idle=8, through=0, reservations=()), 2.0)
    for asked in (job(course), flexible):
        (warning,) = check(asked, sites, NOBODY_LISTED, kept.valid(sites))
        assert "leiden has no reservation course (it has none): it waits" in warning
    told = SiteReported(site=LEIDEN, idle=8, through=0, reservations=(("course", 0),))
    sites.handle(told, 3.0)
    for asked in (job(course), flexible):
        assert check(asked, sites, NOBODY_LISTED, kept.valid(sites)) == ()
    with pytest.raises(RejectedError, match="needs reservation course; delft takes no reservation"):
        check(job(replace(course, site=DELFT)), sites, NOBODY_LISTED)
