"""Resources beside processors: GPUs are counted, features, licences and queues are there or not."""

from __future__ import annotations

import pytest

from koala.common.protocol.messages import Queue, SiteResources
from koala.core.model.actions import CancelTransfer, ClaimProcessors, StartTransfer, StopClaim
from koala.core.model.events import SiteRegistered, SiteReported
from koala.core.model.grid import Site, SiteFacts
from koala.core.model.job_spec import ComponentSpec
from koala.core.model.values import JobId, SiteName, UserName
from koala.core.resources import describe_missing
from koala.policies import chosen
from koala.views.documents import sites_document
from koala.views.explain import why
from tests.core.conftest import Begin
from tests.harness.builders import HIGH, a_component, a_job, a_site
from tests.harness.script import Script

PLACERS = ("CF", "WF", "WF-distinct", "NoNetwork", "PreferLocal", "Service")


def with_gpus(script: Script, **gpus: int) -> Script:
    """Sites of eight processors with so many GPUs, all idle."""
    for name, count in gpus.items():
        script.tell(a_site(name, resources=SiteResources(gpus=count, is_complete=True)))
        script.report(name, 8, gpus=count)
    return script


def sites_of(script: Script, job: str) -> list[str | None]:
    return [
        claim.site for claim in script.take(ClaimProcessors) if claim.claim.split("/")[0] == job
    ]


@pytest.mark.parametrize("policy", PLACERS)
def test_each_policy_places_a_component_where_enough_gpus_are_idle(
    policy: str, begin: Begin
) -> None:
    script = with_gpus(begin(chosen(placement=policy)), aachen=0, delft=2, vu=4)
    script.tell(a_job("j", a_component(2, gpus=3), a_component(1, gpus=2)))
    assert sites_of(script, "j") == ["vu", "delft"]


def test_gpus_are_not_given_twice_before_the_site_reports_again(script: Script) -> None:
    with_gpus(script, delft=4)
    script.tell_together(a_job("j1", a_component(1, gpus=3)), a_job("j2", a_component(1, gpus=2)))
    assert sites_of(script, "j1") == ["delft"]
    assert script.phase("j2") == "Placing"
    assert sites_document(script.scheduler)[0]["idle_gpus"] == 1
    script.report("delft", 7, gpus=1)
    assert script.phase("j2") == "Placing"
    script.report("delft", 8, gpus=4)
    assert sites_of(script, "j2") == ["delft"]


def test_a_component_without_gpus_does_not_wait_for_them(script: Script) -> None:
    with_gpus(script, delft=2)
    script.tell_together(a_job("j1", a_component(1, gpus=2)), a_job("j2", 1))
    assert len(script.take(ClaimProcessors)) == 2


def test_the_explanation_has_the_sites_numbers(script: Script) -> None:
    with_gpus(script, delft=2, vu=8).report("vu", 8, gpus=1)
    script.tell(a_job("j", a_component(1, gpus=4)))
    said = " ".join(why(script.scheduler, JobId("j"), script.now))
    assert "component 0 (1 processors): needs 4 GPUs; vu has 1 idle" in said
    script.tell(a_job("k", a_component(1, gpus=9)))
    said = " ".join(why(script.scheduler, JobId("k"), script.now))
    assert "needs 9 GPUs; delft has 2 GPUs, vu has 8 GPUs" in said


@pytest.mark.parametrize(("gpus", "victims"), [(4, ["low"]), (0, [])])
def test_a_high_priority_job_preempts_who_holds_the_gpus(
    gpus: int, victims: list[str], begin: Begin
) -> None:
    script = begin(bandwidth_default_bps=10.0).ignore(StartTransfer, CancelTransfer)
    facts = SiteFacts(processors=8, starts_after_stop=True, resources=SiteResources(gpus=4))
    script.tell(SiteRegistered(site=SiteName("delft"), facts=facts, idle=8))
    script.report("delft", 8, gpus=4)
    script.tell(a_job("plain", 2)).running("plain")
    script.tell(a_job("low", a_component(2, gpus=4))).running("low")
    script.tell(a_site("home", 1)).replica("data", "home", 10).report("delft", 4, gpus=4)
    script.tell(a_job("high", a_component(2, gpus=gpus or None), priority=HIGH, file="data"))
    script.report("delft", 4, gpus=0).at(0.75)
    assert script.expect(ClaimProcessors, site="delft").is_preempting == bool(victims)
    assert [stop.claim.split("/")[0] for stop in script.take(StopClaim)] == victims


def test_a_component_waits_for_a_site_that_has_not_told_its_gpus_yet(script: Script) -> None:
    """An agent registers before its batch system has answered."""
    script.tell(a_site("delft"), a_job("j", a_component(1, gpus=2)))
    assert script.phase("j") == "Placing"
    assert "delft has not told its GPUs yet" in " ".join(_why(script, "j"))
    reported = SiteReported(site=SiteName("delft"), idle=8, through=0, tells_resources=False)
    script.tell(reported)
    assert "delft has not told its GPUs yet" in " ".join(_why(script, "j"))
    script.tell(a_site("delft", resources=SiteResources(gpus=2))).report("delft", 8, gpus=2)
    assert sites_of(script, "j") == ["delft"]


def _why(script: Script, job: str) -> list[str]:
    return why(script.scheduler, JobId(job), script.now)


HAS = SiteResources(
    gpus=4,
    host_gpus=2,
    gpu_types=("a100", "v100"),
    features=("ib", "haswell"),
    licenses=(("matlab", 3),),
    queues=(
        Queue(name="batch", is_default=True, longest_s=3600.0, processors=8, hosts=2),
        Queue(name="debug", longest_s=600.0),
    ),
    host_memory_mb=1000,
    is_complete=True,
)
TAKES = ("constraint", "licenses", "queue", "minMemory")


@pytest.mark.parametrize(
    ("component", "missing"),
    [
        ({}, ""),
        ({"gpus": 2}, ""),
        ({"gpus": 5, "processors": 4}, "has 4 GPUs"),
        ({"gpus": 3}, "has 2 GPUs on a host, for each process"),
        ({"gpus": 3, "processors": 2}, ""),
        (
            {"gpus": 3, "processors": 2, "cpus_per_task": 2},
            "has 2 GPUs on a host, for each process",
        ),
        ({"gpus": 1, "gpu_type": "v100"}, ""),
        ({"gpus": 1, "gpu_type": "h100"}, "has no GPUs of type h100 (it has a100, v100)"),
        ({"constraint": "ib&haswell"}, ""),
        ({"constraint": "ib&rome"}, "has no hosts with rome (it has ib, haswell)"),
        ({"constraint": "rome|[x*2]"}, ""),  # the batch system decides
        ({"licenses": (("matlab", 3),)}, ""),
        ({"licenses": (("matlab", 4),)}, "has 3 licences of matlab"),
        ({"licenses": (("ansys", 1),)}, "has 0 licences of ansys"),
        ({"queue": "debug"}, ""),
        ({"queue": "night"}, "has no queue night (it has batch, debug)"),
        ({"wall_time_s": 3600.0}, ""),
        ({"wall_time_s": 18_000.0}, "allows 60 min at most in batch (asked 5 h)"),
        ({"wall_time_s": 660.0, "queue": "debug"}, "allows 10 min at most in debug (asked 11 min)"),
        ({"wall_time_s": 660.0, "queue": "debug,batch"}, ""),
        ({"processors": 9}, "allows 8 processors a job at most in batch (asked 9)"),
        ({"processors": 9, "queue": "debug"}, ""),
        ({"hosts": 3}, "allows 2 hosts a job at most in batch (asked 3)"),
        ({"memory_min_mb": 1000}, ""),
        ({"memory_min_mb": 1001}, "has at most 1000 MB on a host"),
    ],
)
def test_what_a_site_lacks(component: dict[str, object], missing: str) -> None:
    wanted = ComponentSpec(executable="x", **component)  # type: ignore[arg-type]
    facts = SiteFacts(processors=4, honours=TAKES, resources=HAS)
    assert describe_missing(wanted, Site(name=SiteName("delft"), facts=facts)) == missing


def test_a_site_that_does_not_take_an_attribute() -> None:
    site = Site(name=SiteName("delft"), facts=SiteFacts(processors=4, resources=HAS))
    for wish in ({"constraint": "ib"}, {"licenses": (("matlab", 1),)}, {"reservation": "r"}):
        (name,) = wish
        assert describe_missing(ComponentSpec(executable="x", **wish), site) == f"takes no {name}"
    for handed in ({"queue": "night"}, {"memory_min_mb": 2000}):  # ignored there, with a warning
        assert describe_missing(ComponentSpec(executable="x", **handed), site) == ""


def reserved(script: Script, idle: int, **rooms: int) -> None:
    """Delft, with what is idle for anybody and in reservations."""
    told = SiteReported(
        site=SiteName("delft"), idle=idle, through=0, reservations=tuple(rooms.items())
    )
    script.tell(told)


@pytest.mark.parametrize("policy", PLACERS)
def test_a_component_has_what_is_idle_in_the_reservation_that_it_names(
    policy: str, begin: Begin
) -> None:
    script = begin(policies=chosen(placement=policy), count_placed=False)
    owned = a_site("delft", 16, honours=("reservation",), idle=4, users=(UserName("ann"),))
    script.tell(owned, a_site("leiden", 8))
    reserved(script, 4, course=12, lab=2)
    mixed = (a_component(6, reservation="course"), a_component(8))
    script.tell(a_job("mixed", *mixed, owner=UserName("ann")))
    assert sorted(map(str, sites_of(script, "mixed"))) == ["delft", "leiden"]
    script.tell(a_job("plain", 4, owner=UserName("ann")))
    assert sites_of(script, "plain") == ["delft"]
    script.tell(a_job("too-many", a_component(7, reservation="course"), owner=UserName("ann")))
    assert "needs reservation course; delft has 6 idle" in " ".join(_why(script, "too-many"))
    script.tell(a_job("unknown", a_component(1, reservation="exam"), owner=UserName("ann")))
    lacks = "delft has no reservation exam (it has course, lab), leiden takes no reservation"
    assert lacks in " ".join(_why(script, "unknown"))
    reserved(script, 0, exam=1, course=13)
    claims = script.take(ClaimProcessors)
    assert {claim.claim.split("/")[0] for claim in claims} == {"too-many", "unknown"}


def test_jobs_go_to_the_site_with_the_features_and_licences(script: Script) -> None:
    script.tell(
        a_site("delft", 16),
        a_site("vu", 8, honours=TAKES, resources=HAS),
        a_job("j", a_component(2, constraint="ib"), a_component(2, licenses=(("matlab", 1),))),
    )
    assert sites_of(script, "j") == ["vu", "vu"]
