"""The chart of the grid: what it draws of any document, and what a run's state becomes."""

from __future__ import annotations

import re
import sys
from random import Random
from xml.etree import ElementTree

import pytest

from koala import lab
from koala.core.model.events import SiteReported
from koala.core.model.values import SiteName
from koala.errors import ConfigError
from koala.views.grid_chart import GridChart, Links
from koala.views.grid_timeline import CLAIMS_MAX, KEPT, POINTS_MAX, STEP_S, LocalHistory, View
from koala.views.records.chart import GridTimeline
from tests.views.charts import timeline_of

LINKS = Links(job=lambda job: f"/jobs/{job}", site=lambda site: f"/?open={site}")
SIGNS = "<>&\"'\x00\x1b\u202e\ud7ff\U0001f428]]>/*;{}ab "
SHARE = re.compile(r"-?\d+(\.\d+)?%")
PLAIN = {"svg", "g", "a", "rect", "line", "text", "title", "path", "defs", "pattern"}


@pytest.mark.parametrize("seed", range(60))
def test_any_document_becomes_a_drawing_within_its_bounds(seed: int) -> None:
    random = Random(seed)
    text = "".join(random.choices(SIGNS, k=random.randrange(12)))
    timeline = timeline_of(text, seed)
    chart = GridChart(timeline, opened=[site.site for site in timeline.sites], links=LINKS)
    for drawn in (chart.document(), chart.fragment()):
        root = ElementTree.fromstring(drawn)
        elements = list(root.iter())
        assert {one.tag.rpartition("}")[2] for one in elements} <= PLAIN
        for element in elements:
            assert not any(name.startswith("on") or name == "style" for name in element.attrib)
            for value in element.attrib.values():
                if SHARE.fullmatch(value):
                    assert 0 <= float(value[:-1]) <= 100.5, element.attrib
        heights = [
            float(one.attrib["height"]) for one in elements if one.get("class") == "bar held"
        ]
        assert all(0 < height <= 54 for height in heights)
    links = list(ElementTree.fromstring(chart.fragment()).iter("a"))
    reached = [one for one in links if one.get("class") == "claim" and one.get("tabindex") == "0"]
    assert len(reached) == any(one.get("class") == "claim" for one in links)


def test_a_run_has_a_chart_in_which_no_processor_is_taken_twice() -> None:
    grid = lab.grid({"a": 16, "b": 24}, local_load=0.2)
    workload = lab.Synthetic(jobs=40, processors=12, stretch=1.0)
    run = lab.Experiment(grid=grid, workload=workload).run(4)
    timeline = run.timeline
    assert timeline is not None
    assert {claim.job for claim in timeline.claims} == {str(job["job"]) for job in run.jobs}
    root = ElementTree.fromstring(run.gantt().svg)
    space = "{http://www.w3.org/2000/svg}"
    boxes = [
        tuple(float(bar.attrib[name].rstrip("%")) for name in ("x", "width", "y", "height"))
        for bar in root.iter(f"{space}rect")
        if bar.get("class") == "bar ended"
    ]
    assert len(boxes) >= len(timeline.claims)
    for number, (x, width, y, height) in enumerate(boxes):
        for left, wide, top, high in boxes[number + 1 :]:
            across = min(x + width, left + wide) - max(x, left)
            down = min(y + height, top + high) - max(y, top)
            assert across < 0.16 or down < 1.6, "two bars of one place"
    with pytest.raises(ConfigError, match="no claims to draw"):
        lab.Experiment(grid=grid, workload=workload).run(has_jobs=False).gantt()


def test_a_view_has_its_sites_and_the_jobs_that_it_may_see(monkeypatch: pytest.MonkeyPatch) -> None:
    experiment = lab.Experiment(
        grid=lab.grid({"a": 16, "b": 16}), workload=lab.Synthetic(jobs=20, processors=8)
    )
    for view, sites in (
        (View(sites={SiteName("b")}), {"b"}),
        (View(sites={SiteName("a")}, sees=lambda _: False), set()),
    ):
        monkeypatch.setattr(
            "koala.lab.sim.log_replay.multicluster.all_sites", lambda _, view=view: view
        )
        found = experiment.run(1).timeline
        assert found is not None
        assert {site.site for site in found.sites} == set(view.sites)
        assert {claim.site for claim in found.claims} == sites


def test_documents_are_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("koala.views.grid_timeline.CLAIMS_MAX", 20)
    experiment = lab.Experiment(
        grid=lab.grid({"a": 16}), workload=lab.Synthetic(jobs=50, processors=8)
    )
    found: GridTimeline | None = experiment.run(2).timeline
    assert found is not None
    assert (len(found.claims), found.left_out) == (20, 30)
    assert float(found.since) == float(found.claims[0].asked_at)
    assert CLAIMS_MAX <= 1_000
    history, site = LocalHistory(), SiteName("a")
    for second in range(30_000):
        report = SiteReported(site=site, idle=0, through=0, local=second)
        history.note(report, float(second))
    points = history.within(site, 0.0, 30_000.0)
    assert len(points) <= POINTS_MAX + 1
    assert points[0] == (0.0, 9), "the longer ago, the coarser"
    assert len(history.within(site, 28_800.0, 30_000.0)) == 1_200 / STEP_S
    assert sys.getsizeof(history._points[site]) < 16 * KEPT
    begin, use = history.within(site, 29_000.0, 29_100.0)[0]
    assert begin == 29_000
    assert abs(use - 29_000) <= STEP_S
