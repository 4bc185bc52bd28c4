"""Pictures and pages follow from the records of the daemon, whose texts never become markup."""

from __future__ import annotations

from html.parser import HTMLParser
from typing import Any
from urllib.parse import quote

import pytest
from msgspec.structs import replace

from koala.views.barrier import barrier
from koala.views.cells import (
    job_cells,
    link_cells,
    site_cells,
    steps,
)
from koala.views.gantt import KINDS, LETTERS, gantt
from koala.views.grid_chart import GridChart, Links
from koala.views.records.chart import GridTimeline
from koala.views.records.grid import LinkStatus, SiteStatus
from koala.views.usage import Use, use_of
from koala.web.pages.job import PARTS
from koala.web.pages.jobs import JobFilter
from koala.web.pages.submit import Wish
from koala.web.pages.timeline import Window
from koala.web.pages.viewer import make_templates
from koala.web.settings import WebSettings
from tests.views.charts import timeline_of
from tests.views.jobs import job_of

HOSTILE = "<script>alert(1)</script>'\"><img src=x onerror=alert(1)>&amp;{{ 7*7 }}"

SITE = SiteStatus(
    site="delft", state="usable", processors=10, idle=1, claimed=6, held=1, running=4, local=3,
    grace_s=2.0, rtt_s=0.0123,
)  # fmt: skip


def test_the_barrier_has_arrivals_passes_and_the_missing() -> None:
    found = barrier(job_of(), now_at=200.0)
    assert [one.state for one in found.arrivals] == ["passed", "passed"]
    assert found.skew_s == pytest.approx(0.01)
    assert [one.passed_text for one in found.arrivals] == ["+0.0 ms", "+10.0 ms"]
    assert found.released_at == 105.5
    left, right = (replace(part, passed_at=None) for part in job_of().parts)
    parts = [left, replace(right, claimed_at=None)]
    waits = barrier(job_of("Claiming", parts=parts, ended_at=None), now_at=104.0)
    assert [one.state for one in waits.arrivals] == ["waits", "missing"]
    assert waits.missing == ("right",)
    assert waits.skew_s is None


def test_the_processors_of_a_site_are_divided_without_remainder() -> None:
    use = use_of(SITE)
    assert use == Use(running=4, waiting=1, others=3, idle=2)
    assert use.processors == SITE.processors
    assert use_of(replace(SITE, state="disconnected")) == Use()
    crowded = use_of(replace(SITE, local=99))
    assert (crowded.others, crowded.idle, crowded.processors) == (5, 0, 10)
    cells = site_cells(replace(SITE, errors=2, is_drained=True))
    assert (cells.state, cells.trouble) == ("usable, drained", "2 errors in a row")
    assert cells.widths["waiting_at"] == "40.00%"


@pytest.mark.parametrize(
    ("words", "passes"),
    [
        ({}, True),
        ({"owner": "ann", "site": "vu", "phase": "Finished"}, True),
        ({"owner": "an"}, False),
        ({"phase": "over"}, True),
        ({"phase": "alive"}, False),
        ({"text": "TRUE delft"}, True),
        ({"text": "true leiden"}, False),
    ],
)
def test_a_filter_takes_the_jobs_that_it_names(words: dict[str, str], passes: bool) -> None:
    wanted = JobFilter.of(words)
    assert wanted.has(job_of()) is passes
    assert wanted.has(job_of()) is JobFilter.of(dict(_pairs(wanted.query))).has(job_of())


def _pairs(query: str) -> list[list[str]]:
    return [pair.replace("+", " ").split("=") for pair in query.split("&") if pair]


def test_nothing_that_users_write_becomes_markup() -> None:
    job = job_of(
        "Failed", name=HOSTILE, owner=HOSTILE, reason=HOSTILE, sites=[HOSTILE],
        story=[[100.0, HOSTILE]], description=HOSTILE,
        parts=[replace(part, label=HOSTILE, executable=HOSTILE) for part in job_of().parts],
    )  # fmt: skip
    templates = make_templates(WebSettings(), daemon="d:1")
    frame = {"user": HOSTILE, "role": "user", "is_operator": True, "csrf": "c", "number": 1,
             "trouble": HOSTILE, "now_at": 200.0}  # fmt: skip
    cells = job_cells(job)
    pages = [
        templates.get_template("job.html").render(
            **frame, here="jobs", job=job, cells=cells, steps=steps(job), why=[HOSTILE],
            kinds=KINDS.items(), letters=LETTERS, is_over=True, part=part, parts=PARTS,
            gantt=gantt(job, 200.0), barrier=barrier(job, 200.0), yaml=HOSTILE,
            outputs=[{"name": HOSTILE, "size_bytes": 1}],
            total={"run_s": 0.0, "held_s": 0.0, "wasted_s": 0.0},
        )
        for part in PARTS
    ]  # fmt: skip
    listed = templates.get_template("jobs.html").render(
        **frame, here="jobs", filter=JobFilter(text=HOSTILE, owner=HOSTILE), groups={},
        offers={"owners": [HOSTILE], "phases": [], "sites": [HOSTILE]}, jobs=[cells], blank=cells,
        count=1, known=1, page=2, pages=3, rows=50, searched=1,
    )  # fmt: skip
    link = LinkStatus(to=HOSTILE, bytes_per_s=1, copies=1)
    grid = templates.get_template("grid.html").render(
        **frame, here="grid", sites=[site_cells(replace(SITE, site=HOSTILE, trouble=HOSTILE))],
        total=dict.fromkeys(("processors", "running", "waiting", "others", "idle"), "1"),
        **chart_values(timeline_of(HOSTILE)), counts=[(HOSTILE, "waiting", 1)], jobs=[cells],
        alive=1, all_links=1,
        links=link_cells([replace(SITE, site=HOSTILE, links=(link,))]),
    )  # fmt: skip
    error = templates.get_template("error.html").render(
        **frame, here="", heading="Not Found", text=HOSTILE
    )
    submitted = templates.get_template("submit.html").render(
        **frame, here="submit", text=HOSTILE, wish=Wish(program=HOSTILE), gpus=True,
        error={"text": HOSTILE}, files=[{"file": HOSTILE}], templates={},
        sites=[{"site": HOSTILE, "is_chosen": True, "words": HOSTILE}],
    )  # fmt: skip
    for text in (*pages, listed, grid, error, submitted):
        tags = Tags()
        tags.feed(text)
        scripts = [found for found in tags.found if found[0] == "script"]
        assert [dict(found[1])["src"] for found in scripts] == ["/static/page.js"]
        assert "alert(1)" in "".join(tags.texts)
        names = {name for _, attributes in tags.found for name, _ in attributes}
        assert not any(name.startswith("on") or name == "style" for name in names)
        images = [dict(found[1])["src"] for found in tags.found if found[0] == "img"]
        assert images == ["/static/icon.svg"]


def chart_values(found: GridTimeline) -> dict[str, Any]:
    """The values of the part `timeline.html`, every site open."""
    links = Links(job=lambda job: f"/jobs/{quote(job, safe='')}", site=lambda _: "/")
    chart = GridChart(found, opened=[site.site for site in found.sites], links=links)
    return {
        "chart": chart, "drawn": chart.fragment(), "window": Window(), "moves": [], "query": "",
        "chart_site": HOSTILE, "claims": found.claims, "count": 1, "left_out": 1,
    }  # fmt: skip


class Tags(HTMLParser):
    """Reads a page as a browser does: its elements with their attributes, and its texts."""

    def __init__(self) -> None:
        super().__init__()
        self.found: list[tuple[str, list[tuple[str, str | None]]]] = []
        self.texts: list[str] = []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.found.append((tag, attrs))

    def handle_data(self, data: str) -> None:
        self.texts.append(data)
