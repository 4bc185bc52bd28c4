"""Replays beside the web process: their numbers, their bounds, and their end."""

from __future__ import annotations

import json
import re
import sys
from html.parser import HTMLParser
from pathlib import Path

import pytest

from koala.web.playback import (
    COLUMNS,
    FIGURES,
    JOBS_SHOWN,
    PastRun,
    difference,
    playback_data,
)
from koala.web.settings import WebSettings
from tests.cli.command import koala_here
from tests.harness.builders import a_spec
from tests.lab.sim.journal_replay.past import Grid, written
from tests.web.pages import web

pytestmark = pytest.mark.live
CHANGES = ("queueing=LS-OR", "hold_s=300")
LONG = "x" * 300
OTHERS = "placement=antigravity:fly"
MARKUP = "<script>1</script>"


@pytest.fixture
def journal(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Four jobs at two sites; how long they wait depends on the queues."""
    grid = Grid(sites={"delft": 8, "leiden": 16}, run_s={"j1": 90.0, "j2": 90.0})
    grid.local_job("leiden", 8, at=5.0, run_s=95.0)
    grid.submit("j1", a_spec(8), at=10.0)
    grid.submit("j2", a_spec(8), at=11.0)
    grid.submit("j3", a_spec(8, 8), at=30.0)
    grid.submit("j4", a_spec(4), at=40.0)
    grid.told(600.0)
    return written(grid.records(), tmp_path_factory.mktemp("state"))


def document(journal: Path, *changes: str) -> PastRun:
    """Return what `koala replay --json` prints."""
    options = [word for change in changes for word in ("--with", change)]
    run = koala_here("replay", str(journal), *options, "--summary", "--claims", "--json")
    assert run.returncode == 0, run.stderr
    found = json.loads(run.stdout)
    assert isinstance(found, dict)
    return PastRun(found)


class Tables(HTMLParser):
    """Cells of each row of tables, by the text of the first."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.rows: dict[str, list[str]] = {}
        self._row: list[str] | None = None
        self.feed(text)

    def handle_starttag(self, tag: str, _: list[tuple[str, str | None]]) -> None:
        """Begin a row, or a cell of it."""
        if tag == "tr":
            self._row = []
        elif tag in ("td", "th") and self._row is not None:
            self._row.append("")

    def handle_endtag(self, tag: str) -> None:
        """End a row."""
        if tag == "tr" and self._row:
            self.rows[self._row[0]] = self._row[1:]

    def handle_data(self, data: str) -> None:
        """Add to the cell."""
        if self._row:
            self._row[-1] += data


async def test_a_what_if_has_the_numbers_of_the_command(
    journal: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    settings = WebSettings(journal=journal)
    query = "with=queueing%3DLS-OR&with=&with=hold_s%3D300"
    async with web(tmp_path, monkeypatch, settings) as found, found.signed_in() as browser:
        page = await browser.get(f"/replay?{query}")
        shown = (await browser.get(f"/replay/data?{query}")).json()
        wrong = {
            change: await browser.get("/replay", params={"with": change})
            for change in (
                "placement=nearest",
                "hold_s=soon",
                "nonsense",
                MARKUP,
                LONG,
                OTHERS,
            )
        }
        alone = (await browser.get("/replay/data")).json()
    expected = document(journal, *CHANGES)
    assert page.status_code == 200, page.text
    assert shown == playback_data(expected)
    assert alone == playback_data(document(journal))
    assert alone["runs"]["recorded"] == shown["runs"]["recorded"]
    assert shown["runs"]["what_if"] != shown["runs"]["recorded"], "the policy changes the run"
    tables = Tables(page.text)
    figures = expected["figures"]
    for name, word, form in FIGURES:
        cells = [form(figures[column][name]) for column in COLUMNS]
        assert tables.rows[word] == [*cells, difference(figures["difference"][name], form)]
    moved = [
        row["job"]
        for row in expected["jobs"]
        if row["what_if"]["wait_s"] != row["simulated"]["wait_s"]
    ]
    assert moved
    assert len(set(moved) & tables.rows.keys()) == min(len(moved), JOBS_SHOWN)
    assert "koala replay" in page.text
    for change, answer in wrong.items():
        assert answer.status_code == 422, change
        assert re.search("expected", answer.text, re.IGNORECASE), change
        assert MARKUP not in answer.text
        assert 'id="playback"' in answer.text, "the run as it was stays"
    assert "antigravity" not in sys.modules, "addresses import nothing"
    assert "placement=nearest" in wrong["placement=nearest"].text
