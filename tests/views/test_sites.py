"""Records of sites: their links."""

from __future__ import annotations

from koala.core.model.actions import ClaimProcessors, StartTransfer
from koala.core.model.events import SiteReported
from koala.core.model.values import SiteName
from koala.views.cells import LinkCells, link_cells
from koala.views.documents import sites_document
from koala.views.records.grid import LinkStatus
from tests.harness.builders import a_job, a_site
from tests.harness.script import Script


def test_a_link_has_its_copies_and_then_its_bandwidth() -> None:
    script = Script()
    script.ignore(ClaimProcessors, StartTransfer)
    script.tell(a_site("delft", 8), a_site("home", 1)).replica("data", "home", 1_000_000)
    script.tell(a_job("j1", 8, file="data"))
    sites = sites_document(script.scheduler)
    assert {site.site: site.links for site in sites} == {
        "delft": (),
        "home": (LinkStatus(to="delft", bytes_per_s=None, copies=1),),
    }
    assert link_cells(sites) == [LinkCells(link="home → delft", bandwidth="–", copies="1")]
    (transfer,) = script.scheduler.files.transfers
    script.at(2.0).fetched(transfer, 1_000_000, 2.0)
    (link,) = sites_document(script.scheduler)[1].links
    assert (link.to, link.copies) == ("delft", 0)
    assert link.bytes_per_s is not None
    assert link.bytes_per_s > 0


def test_a_site_tells_what_is_idle_in_its_reservations() -> None:
    script = Script()
    script.tell(a_site("delft", 8), a_site("leiden", 8))
    told = SiteReported(site=SiteName("delft"), idle=2, through=0, reservations=(("course", 6),))
    script.tell(told)
    sites = sites_document(script.scheduler)
    assert [site.reservations for site in sites] == [{"course": 6}, None]
