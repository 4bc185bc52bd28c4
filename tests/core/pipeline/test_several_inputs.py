"""Several input files, of a job and of its components: Close-to-Files counts their sizes, and each
file is copied to the sites of the components that read it."""

from __future__ import annotations

from dataclasses import replace

import pytest

from koala.common.protocol.messages import HeldFile
from koala.core.model.actions import ClaimProcessors, StartTransfer
from koala.core.model.events import ReplicaRemoved
from koala.core.model.grid import (
    Assignment,
    GridView,
    Placement,
    PlacementRequest,
    Replica,
    SiteView,
)
from koala.core.model.job_spec import ComponentSpec, InputFile
from koala.core.model.values import FileName, SiteName
from koala.policies import chosen
from koala.views.explain import why
from tests.core.conftest import Begin
from tests.harness.builders import a_component, a_job, a_site
from tests.harness.script import Script

BIG, SMALL, TINY = FileName("big"), FileName("small"), FileName("tiny")
MORE = (InputFile(name=SMALL), InputFile(name=TINY))


def two_homes(begin: Begin) -> Script:
    """The big file is at one site, the small ones at another one; neither has room for the job."""
    script = begin(bandwidth_default_bps=10.0).tell(a_site("a", 1), a_site("b", 1))
    return script.replica(BIG, "a", 900).replica(SMALL, "b", 60).replica(TINY, "b", 40)


def a_reader(*components: object, **more: object) -> object:
    return a_job("j1", *components, file=BIG, more_files=MORE, **more)  # type: ignore[arg-type]


def test_the_start_waits_for_the_sum_of_the_sizes_and_each_file_has_its_own_source(
    begin: Begin,
) -> None:
    script = two_homes(begin).tell(a_site("delft", 8), a_reader(8))  # type: ignore[arg-type]
    copies = [(c.file, c.source, c.target, c.size_bytes) for c in script.take(StartTransfer)]
    assert copies == [
        (BIG, "a", "delft", 900),
        (SMALL, "b", "delft", 60),
        (TINY, "b", "delft", 40),
    ]
    attempt = script.job("j1").attempt
    assert attempt is not None
    assert attempt.transfer_s == pytest.approx(100.0)
    claim = script.at(75).expect(ClaimProcessors)
    assert claim.inputs == ("j1/1/t1", "j1/1/t2", "j1/1/t3")
    assert [held.transfer for held in claim.files] == list(claim.inputs)


def test_a_job_goes_where_most_of_its_bytes_are(begin: Begin) -> None:
    script = two_homes(begin).tell(a_site("near", 8), a_site("far", 8))
    script.replica(BIG, "near", 900).tell(a_reader(8))  # type: ignore[arg-type]
    assert script.placed_on("j1") == ["near"]
    assert [copy.file for copy in script.take(StartTransfer)] == [SMALL, TINY]
    script.fetched("j1/1/t1", 60).fetched("j1/1/t2", 40)
    claim = script.expect(ClaimProcessors)
    assert claim.files == (
        HeldFile(file=BIG),
        HeldFile(file=SMALL, transfer="j1/1/t1"),
        HeldFile(file=TINY, transfer="j1/1/t2"),
    )


def test_components_at_one_site_share_the_copies_and_wait_for_all_of_them(begin: Begin) -> None:
    script = two_homes(begin).tell(a_site("delft", 8))
    script.tell(a_reader(a_component(4, "delft"), a_component(4, "delft")))  # type: ignore[arg-type]
    assert len(script.take(StartTransfer)) == 3
    script.fetched("j1/1/t1", 900).fetched("j1/1/t3", 40)
    attempt = script.job("j1").attempt
    assert attempt is not None
    assert [member.is_fetched for member in attempt.members] == [False, False]
    assert any("small travels from b to delft" in line
               for line in why(script.scheduler, script.job("j1").id, script.now))  # fmt: skip
    script.fetched("j1/1/t2", 60)
    assert [member.is_fetched for member in attempt.members] == [True, True]
    assert script.take(ClaimProcessors)


def test_a_job_waits_while_one_of_its_files_is_nowhere(begin: Begin) -> None:
    script = two_homes(begin).tell(a_site("delft", 8))
    script.tell(ReplicaRemoved(file=TINY, site=SiteName("b")), a_reader(8))  # type: ignore[arg-type]
    assert script.phase("j1") == "Placing"
    script.replica(TINY, "delft", 40)
    assert script.placed_on("j1") == ["delft"]
    script.drop()


def test_the_route_of_several_files_is_their_mean_by_size() -> None:
    names = [SiteName(name) for name in ("a", "b", "c")]
    replicas = {
        BIG: Replica(size_bytes=900, sites=(names[0],)),
        SMALL: Replica(size_bytes=100, sites=(names[1],)),
    }
    view = GridView(
        [SiteView(name=name, processors=1, idle=1) for name in names],
        replicas=replicas,
        bandwidth={},
        bandwidth_default=10.0,
    )
    ways = view.routes((BIG, SMALL))
    assert [cost for cost, *_ in ways] == pytest.approx([0.01, 0.09, 0.1])
    assert [way[1:] for way in ways] == [("b", "a"), ("a", "b"), ("a", "c")]
    assert view.holders((BIG, SMALL)) == ()
    assert view.routes((BIG, TINY)) == ()


def own(*names: FileName, site: str | None = None, processors: int = 4) -> ComponentSpec:
    return a_component(processors, site, inputs=tuple(InputFile(name=name) for name in names))


def test_a_components_own_files_go_to_its_site_only(begin: Begin) -> None:
    script = two_homes(begin).tell(a_site("delft", 4), a_site("leiden", 4), a_site("vu", 4))
    script.tell(
        a_job("j1", own(BIG, site="delft"), own(SMALL, site="leiden"), a_component(4, "vu"))
    )
    copies = [(c.file, c.target) for c in script.take(StartTransfer)]
    assert copies == [(BIG, "delft"), (SMALL, "leiden")]
    script.fetched("j1/1/t1", 900).fetched("j1/1/t2", 60)
    claims = {claim.site: claim for claim in script.take(ClaimProcessors)}
    assert claims[SiteName("delft")].files == (HeldFile(file=BIG, transfer="j1/1/t1"),)
    assert claims[SiteName("leiden")].files == (HeldFile(file=SMALL, transfer="j1/1/t2"),)
    assert claims[SiteName("vu")].files == ()


def test_each_component_goes_close_to_its_own_files(begin: Begin) -> None:
    script = begin(bandwidth_default_bps=10.0).tell(a_site("a", 8), a_site("b", 8))
    script.replica(BIG, "a", 900).replica(SMALL, "b", 60).replica(TINY, "b", 40)
    script.tell(a_job("j1", own(SMALL, TINY), own(BIG)))
    assert script.placed_on("j1") == ["b", "a"]
    assert not script.take(StartTransfer)
    claims = {claim.site: claim for claim in script.take(ClaimProcessors)}
    assert claims[SiteName("b")].files == (HeldFile(file=SMALL), HeldFile(file=TINY))
    assert claims[SiteName("a")].files == (HeldFile(file=BIG),)


def test_a_source_of_files_that_are_all_at_the_site_is_ignored(begin: Begin) -> None:
    """As a policy of another package may name it."""

    def theirs(_request: PlacementRequest, _view: GridView) -> Placement:
        where = Assignment(component=0, site=SiteName("b"), source=SiteName("a"))
        return Placement(assignments=(where,))

    script = begin(replace(chosen(), place=theirs))
    script.tell(a_site("a", 8), a_site("b", 8)).replica(SMALL, "b", 60).replica(TINY, "b", 40)
    script.tell(a_job("j1", own(SMALL, TINY)))
    assert not script.take(StartTransfer)
    assert script.expect(ClaimProcessors).files == (HeldFile(file=SMALL), HeldFile(file=TINY))


def test_a_job_waits_while_a_file_of_one_component_is_nowhere(begin: Begin) -> None:
    script = begin().tell(a_site("delft", 8)).replica(SMALL, "delft", 60)
    script.tell(a_job("j1", own(SMALL), own(BIG)))
    assert script.phase("j1") == "Placing"
    assert any("no usable site holds its input file big" in line
               for line in why(script.scheduler, script.job("j1").id, script.now))  # fmt: skip
    script.replica(BIG, "delft", 900)
    assert script.placed_on("j1") == ["delft", "delft"]
    script.drop()


def test_a_refused_job_does_not_answer_for_one_with_other_files(begin: Begin) -> None:
    """Within a scan, a request equal to a refused one is not asked again."""
    script = begin().tell(a_site("delft", 8, idle=0)).replica(SMALL, "delft", 60)
    script.tell_together(a_job("j1", own(BIG)), a_job("j2", own(SMALL)))
    script.report("delft", 8)
    assert (script.phase("j1"), script.phase("j2")) == ("Placing", "Claiming")
    script.drop()
