"""Bookings of links are state: made at the placement, kept over a replay, given back at the end
(Hints 4.2).
"""

from __future__ import annotations

from typing import Any

from koala.core.model.actions import ClaimProcessors, StartTransfer
from koala.core.model.events import ParametersChanged, TransferFinished
from koala.core.model.job import EndKind
from koala.core.model.job_spec import InputFile
from koala.core.model.values import FileName, JobId, SiteName, TransferId
from koala.core.queries import booked_bandwidth
from koala.policies import chosen
from koala.views.documents import job_document
from tests.harness.builders import a_job, a_site
from tests.harness.script import Script

HOME, DELFT = SiteName("home"), SiteName("delft")


def a_grid(placement: str = "PreferLocal", **parameters: Any) -> Script:
    """The file (100 bytes unless said otherwise) lies at `home`, which has a single processor; 100
    bytes a second of the link to delft can be booked, and 50 of home's own."""
    script = Script(chosen(placement=placement), bandwidth_default_bps=10.0, **parameters)
    script.tell(
        ParametersChanged(
            parameters=script.parameters,
            bookable=((HOME, DELFT, 100.0), (HOME, HOME, 50.0)),
        )
    )
    return script.tell(a_site("home", 1, idle=0, mips=500.0), a_site("delft", mips=2000.0))


def reader(name: str, *, length_mi: float = 2000.0, size: str = "data", **more: Any) -> Any:
    return a_job(name, 1, file=size, length_mi=length_mi, **more)


def finished(name: str, took_s: float = 1.0) -> TransferFinished:
    return TransferFinished(transfer=TransferId(name), size_bytes=1000, took_s=took_s)


def test_a_copy_is_ordered_at_the_rate_that_was_booked_for_it() -> None:
    """1000 bytes for 40,000 MI at 2000 MIPS: 50 bytes a second, so that the copy takes 20 s."""
    script = a_grid().replica("data", "home", 1000)
    script.tell(reader("j1", length_mi=40_000.0))
    order = script.expect(StartTransfer, source="home", target="delft")
    assert order.booked_bps == 50.0
    assert job_document(script.scheduler, JobId("j1"))["timeline"]["transfer_estimate_s"] == 20.0
    assert booked_bandwidth(script.scheduler) == {(HOME, DELFT): 50.0}
    assert script.scheduler.wanted(DELFT).fetches == (order,)
    part = job_document(script.scheduler, JobId("j1"))["parts"][0]
    assert (part["mips"], part["booked_bps"]) == (2000.0, 50.0)


def test_several_files_share_what_was_booked_for_their_component() -> None:
    """By their sizes, so all are there when the copy of one file of their size would be."""
    script = a_grid().replica("data", "home", 900).replica("small", "home", 100)
    more = (InputFile(name=FileName("small")),)
    script.tell(reader("j1", length_mi=40_000.0, more_files=more))
    orders = script.take(StartTransfer)
    assert [order.booked_bps for order in orders] == [45.0, 5.0]
    assert booked_bandwidth(script.scheduler) == {(HOME, DELFT): 50.0}
    assert job_document(script.scheduler, JobId("j1"))["timeline"]["transfer_estimate_s"] == 20.0


def test_what_was_booked_is_free_when_the_copy_is_done() -> None:
    script = a_grid(preferred_mips=400.0).replica("data", "home", 1000).ignore(ClaimProcessors)
    script.tell(reader("j1", length_mi=20_000.0)).drop()
    script.tell(reader("j2", length_mi=20_000.0)).expect_nothing()
    script.at(8).tell(finished("j1/1/t1"))
    assert script.expect(StartTransfer, transfer="j2/1/t1").booked_bps == 100.0
    assert booked_bandwidth(script.scheduler) == {(HOME, DELFT): 100.0}


def test_a_booked_copy_teaches_nothing_about_its_link() -> None:
    """Its limit says nothing about what the link could do."""
    script = a_grid().replica("data", "home", 1_000_000)
    script.tell(reader("j1", length_mi=1e9)).drop()
    assert booked_bandwidth(script.scheduler) == {(HOME, DELFT): 2.0}
    script.tell(
        TransferFinished(transfer=TransferId("j1/1/t1"), size_bytes=1_000_000, took_s=500_000.0)
    )
    assert script.scheduler.files.bandwidth == {}
    script.drop()


def test_a_local_reader_books_its_site_s_own_link_until_it_ends() -> None:
    script = a_grid().report("home", 1).replica("data", "home", 1000)
    script.tell(reader("j1", length_mi=20_000.0)).running("j1")
    assert booked_bandwidth(script.scheduler) == {(HOME, HOME): 25.0}
    script.gone("j1/1/0/1", EndKind.EXITED)
    assert script.phase("j1") == "Finished"
    assert booked_bandwidth(script.scheduler) == {}


def test_job_slots_bound_the_claims_at_a_site_under_any_policy() -> None:
    for placement in ("CF", "Service"):
        script = Script(chosen(placement=placement)).tell(a_site("delft", slots=1))
        script.tell(a_job("j1", 1)).expect(ClaimProcessors)
        script.tell(a_job("j2", 1)).expect_nothing()
        script.cancel("j1").drop()
        script.gone("j1/1/0/1").expect(ClaimProcessors, claim="j2/1/0/1")
