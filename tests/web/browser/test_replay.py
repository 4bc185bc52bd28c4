"""A past run and a what-if beside it in a real Chromium: with the keyboard, and on a phone."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

import pytest
from axe_playwright_python.sync_playwright import Axe
from playwright.sync_api import expect

from koala.web.playback import COLUMNS, FIGURES
from tests.cli.grids import Up, up
from tests.web.browser.stage import LIMIT_MS, PHONE, WebProcess, chromium, page_of, web_process
from tests.web.browser.steps import submitted
from tests.web.test_past_runs import document

pytestmark = pytest.mark.browser
expect.set_options(timeout=LIMIT_MS)
SLEEP = "(&(executable=/bin/sleep)(arguments=1)(count={}))"
PAIR = "+" + SLEEP.format(3) + SLEEP.format(2)


@pytest.fixture(scope="module")
def grid(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Up]:
    """A grid whose jobs had to wait for one another."""
    with up(tmp_path_factory.mktemp("g")) as running:
        jobs = [submitted(running.address, PAIR) for _ in range(4)]
        assert running.koala("wait", *jobs).returncode == 0
        yield running


@pytest.fixture(scope="module")
def web(grid: Up, tmp_path_factory: pytest.TempPathFactory) -> Iterator[WebProcess]:
    """The pages of the grid, with its own journal as the past run."""
    folder, state = tmp_path_factory.mktemp("w"), Path(grid.said_state()) / "daemon"
    with web_process(folder, grid.address, "127.0.0.1:0", "--journal", str(state)) as running:
        yield running


def test_a_what_if_runs_beside_the_playback(grid: Up, web: WebProcess) -> None:
    state = Path(grid.said_state()) / "daemon"
    with chromium() as browser, page_of(browser, web) as page:
        page.goto(f"{web.address}/replay")
        expect(page.locator("[data-now=recorded]")).to_contain_text("4 are over")
        page.get_by_label("Placement").focus()
        page.keyboard.press("W")  # WF
        page.get_by_label("Parameters").focus()
        page.keyboard.type("claiming.T=1.0")
        page.keyboard.press("Enter")
        expect(page.locator("[data-now=what_if]")).to_contain_text("4 are over")
        assert page.url.endswith("/replay?with=placement%3DWF&with=claiming.T%3D1.0"), page.url
        assert page.locator(".playback-lane[data-run=what_if] path").count() == 4
        expected = document(state, "placement=WF", "claiming.T=1.0")["figures"]
        for name, word, form in FIGURES:
            row = page.get_by_role("region", name="Figures of the runs").get_by_role(
                "row", name=re.compile(f"^{word} ")
            )
            cells = row.get_by_role("cell").all_text_contents()
            assert cells[: len(COLUMNS)] == [form(expected[column][name]) for column in COLUMNS]
        slider = page.get_by_label("Instant of the run")
        slider.focus()
        page.keyboard.press("Home")
        for run in ("recorded", "what_if"):
            expect(page.locator(f"[data-now={run}]")).to_contain_text("0 are over")
        page.get_by_role("button", name="Play").press("Enter")
        over = page.locator("[data-now=what_if]")
        expect(over).to_contain_text("4 are over", timeout=2 * LIMIT_MS)  # it plays for 20 s

        page.set_viewport_size(PHONE)
        for path in (page.url, f"{web.address}/replay?with=placement%3DWX"):
            page.goto(path)
            assert page.evaluate("document.scrollingElement.scrollWidth") <= PHONE["width"]
            found = Axe().run(page).response["violations"]
            assert [one["id"] for one in found if one["impact"] in ("serious", "critical")] == []
        expect(page.get_by_role("alert")).to_contain_text("WX")
        expect(page.get_by_role("alert")).to_contain_text("expected one of CF")
