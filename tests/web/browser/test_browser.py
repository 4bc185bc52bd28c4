"""A real Chromium in front of a real grid: jobs from submission to end, roles, restarts, hostile
texts, small screens, and the rules of accessibility."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from axe_playwright_python.sync_playwright import Axe
from playwright.sync_api import expect

from koala.views.cells import milliseconds, processor_time
from tests.cli.command import LIMIT_S
from tests.cli.grids import Up, daemon_process, up
from tests.harness.ports import free_port
from tests.web.browser.stage import LIMIT_MS, PHONE, WebProcess, chromium, page_of, web_process
from tests.web.browser.steps import command, document, submitted

pytestmark = pytest.mark.browser
expect.set_options(timeout=LIMIT_MS)

UNTIL_GO = "until [ -e GO ]; do sleep 0.1; done"
PAIR = f"""+(&(executable=/bin/sh)(count=1)(label=left)
   (arguments=-c "{UNTIL_GO}; echo left is done"))
 (&(executable=/bin/sh)(count=2)(label=right)(arguments=-c "{UNTIL_GO}; echo right is done"))"""
SLEEP = "&(executable=/bin/sleep)(arguments=600)(count=1)"
MARKUP = "<img src=x onerror=window.owned=1><script>window.owned=1</script>"


@pytest.fixture(scope="module")
def browser() -> Iterator[Any]:
    """One Chromium for all tests; each test has a context of its own."""
    with chromium() as found:
        yield found


@pytest.fixture(scope="module")
def grid(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Up]:
    """One grid of two sites."""
    with up(tmp_path_factory.mktemp("g")) as running:
        yield running


@pytest.fixture(scope="module")
def web(grid: Up, tmp_path_factory: pytest.TempPathFactory) -> Iterator[WebProcess]:
    """The pages of the grid."""
    with web_process(tmp_path_factory.mktemp("w"), grid.address) as running:
        yield running


def test_a_job_is_submitted_and_watched_to_its_end(
    grid: Up, web: WebProcess, browser: Any, tmp_path: Path
) -> None:
    go = tmp_path / "go"
    with page_of(browser, web) as page:
        page.goto(f"{web.address}/submit")
        text = page.get_by_label("Description in RSL")
        text.fill("&(executable=/bin/true)(count=oops)")
        expect(page.locator("#verdict")).to_contain_text("oops")
        expect(page.locator("#verdict")).to_contain_text("line 1")
        text.fill(PAIR.replace("GO", str(go)))
        expect(page.locator("#verdict")).to_contain_text("This can be submitted.")
        page.get_by_role("button", name="Submit").click()
        heading = page.get_by_role("heading", level=1)
        expect(heading).to_contain_text("Running")
        assert page.locator("svg .running").count() > 0
        expect(page.locator(".steps [aria-current=step]")).to_have_text("Running")
        page.evaluate("window.wasKept = true")
        go.touch()
        expect(heading).to_contain_text("Finished")
        expect(page.locator("#log")).to_contain_text("left is done")
        expect(page.locator("#log")).to_contain_text("right is done")
        assert page.evaluate("window.wasKept"), "the page was loaded again"
        job = page.url.rpartition("/")[2]
        shown = document(grid, "show", job)
        expect(page.get_by_role("region", name="Arrivals and passes")).to_contain_text("left")
        expect(page.locator("b.big")).to_have_text(milliseconds(shown["timeline"]["start_skew_s"]))
        run_s = sum(claim["run_s"] for claim in shown["charges"])
        expect(page.get_by_role("region", name="Usage by claim").locator("tfoot")).to_contain_text(
            processor_time(run_s)
        )
        for part in shown["parts"]:
            row = page.get_by_role("region", name="Components").get_by_role(
                "row", name=re.compile(f"^{part['label']}")
            )
            expect(row).to_contain_text(part["site"])


def test_lists_follow_by_themselves_and_a_job_is_cancelled(
    grid: Up, web: WebProcess, browser: Any
) -> None:
    with page_of(browser, web) as page, page_of(browser, web) as filtered:
        page.goto(f"{web.address}/jobs")
        filtered.goto(f"{web.address}/jobs?text=nothing-has-this")
        expect(page.locator("#link")).to_have_text("live")
        expect(filtered.locator("#link")).to_have_text("live")
        job = submitted(grid.address, SLEEP)
        row = page.locator(f"[data-job={job}]")
        expect(row).to_contain_text("Running")
        listed = next(one for one in document(grid, "list")["jobs"] if one["job"] == job)
        assert listed["sites"][0] in row.text_content()
        page.keyboard.press("/")
        expect(page.get_by_role("searchbox")).to_be_focused()
        page.get_by_role("heading", level=1).click()
        page.keyboard.press("?")
        expect(page.get_by_role("note")).to_contain_text("search jobs")
        page.keyboard.press("?")
        page.keyboard.press("j")
        expect(page.locator("tbody th a").first).to_be_focused()
        row.get_by_role("link").click()
        page.get_by_role("button", name="Cancel job").click()
        question = page.get_by_role("dialog")
        expect(question).to_contain_text("processors have run for")
        question.get_by_role("button", name="Keep it").click()
        expect(question).to_be_hidden()
        page.get_by_role("button", name="Cancel job").click()
        question.get_by_role("button", name="Cancel job").click()
        expect(page.get_by_role("heading", level=1)).to_contain_text("Cancelled")
        assert document(grid, "show", job)["phase"] == "Cancelled"
        assert filtered.locator(f"[data-job={job}]").count() == 0
        lines = document(grid, "audit")["lines"]
        assert any(one["verb"] == "Cancel" and job in one["object"] for one in lines)


def test_the_grid_has_the_numbers_of_the_command_line(
    grid: Up, web: WebProcess, browser: Any
) -> None:
    with page_of(browser, web) as page:
        job = submitted(grid.address, "&(executable=/bin/sleep)(arguments=600)(count=3)")
        expect(page.locator("[data-total=running]")).to_have_text("3")
        for site in document(grid, "site")["sites"]:
            row = page.locator(f"[data-site={site['site']}]")
            expect(row.locator("[data-cell=running]")).to_have_text(str(site["running"]))
            expect(row.locator("[data-cell=processors]")).to_have_text(str(site["processors"]))
            expect(row.locator("[data-cell=state]")).to_have_text(site["state"])
        command(grid.address, "cancel", job)
        expect(page.locator("[data-total=running]")).to_have_text("0")
        page.get_by_role("link", name="vu").first.click()
        page.get_by_role("button", name="Drain").click()
        page.get_by_role("dialog").get_by_role("button", name="Drain").click()
        expect(page.get_by_role("heading", level=1)).to_contain_text("drained")
        page.get_by_role("button", name="Resume").click()
        expect(page.get_by_role("heading", level=1)).to_contain_text("usable")


def test_names_and_logs_of_users_run_no_script(grid: Up, web: WebProcess, browser: Any) -> None:
    program = f"echo '{MARKUP}'; echo '{MARKUP}' >&2; exit 3"
    text = f'&(executable=/bin/sh)(arguments=-c "{program}")(count=1)'
    run = command(grid.address, "submit", "-", "--wait", stdin=text.encode())
    job = run.stdout.strip()
    with page_of(browser, web) as page:
        page.goto(f"{web.address}/jobs/{job}")
        expect(page.locator("#log .err")).to_contain_text(MARKUP)
        assert page.locator("main img, main script, #log img").count() == 0
        page.goto(f"{web.address}/jobs?text={MARKUP}&owner={MARKUP}&phase={MARKUP}")
        assert page.locator("main img, main script").count() == 0
        page.goto(f"{web.address}/sites/<img src=x onerror=window.owned=1>")
        expect(page.locator(".notice")).to_contain_text("onerror")
        page.goto(f"{web.address}/submit")
        page.get_by_label("Description in RSL").fill(f"&(executable={MARKUP})")
        expect(page.locator("#verdict")).to_have_class("verdict bad")
        assert page.evaluate("window.owned") is None


def test_every_page_is_accessible_and_fits_a_phone(grid: Up, web: WebProcess, browser: Any) -> None:
    paths = (
        "/",
        "/jobs",
        "/jobs/j1",
        "/sites/vu",
        "/queues",
        "/report",
        "/submit",
        "/jobs/j999999",
    )
    for scheme in ("light", "dark"):
        with page_of(browser, web, color_scheme=scheme, viewport=PHONE) as page:
            for path in paths:
                page.goto(web.address + path)
                found = Axe().run(page).response["violations"]
                serious = [
                    (one["id"], [node["html"] for node in one["nodes"]][:3])
                    for one in found
                    if one["impact"] in ("serious", "critical")
                ]
                assert serious == [], (scheme, path)
                assert page.evaluate("document.scrollingElement.scrollWidth") <= PHONE["width"]
            page.keyboard.press("Tab")
            expect(page.get_by_role("link", name="Skip to the content")).to_be_focused()


def submit(port: int) -> str:
    """A job that waits, since no site is there; tried until the daemon serves."""
    while True:
        run = command(f"127.0.0.1:{port}", "submit", "-", stdin=SLEEP.encode())
        if run.returncode == 0:
            return run.stdout.strip()
        assert run.returncode == 3, run.stderr


def test_open_pages_survive_restarts_of_daemon_and_web_process(
    browser: Any, tmp_path: Path
) -> None:
    port = free_port()
    config = tmp_path / "daemon.toml"
    config.write_text(
        f'[daemon]\nlisten = "127.0.0.1:{port}"\nstate_dir = "state"\n', encoding="utf-8"
    )
    address = f"127.0.0.1:{port}"
    with daemon_process(config) as running:
        first = submit(port)
        with web_process(tmp_path, address) as web, page_of(browser, web) as page:
            page.goto(f"{web.address}/jobs")
            expect(page.locator(f"[data-job={first}]")).to_contain_text("Placing")
            page.evaluate("window.wasKept = true")
            running.kill()
            running.wait(LIMIT_S)
            expect(page.locator("#trouble")).to_contain_text("no daemon answers")
            with daemon_process(config):
                second = submit(port)
                expect(page.locator(f"[data-job={second}]")).to_contain_text("Placing")
                expect(page.locator("#trouble")).to_be_hidden()
                assert page.evaluate("window.wasKept"), "the page was loaded again"
                listen = web.address.removeprefix("http://")
                web.process.terminate()
                web.process.wait(LIMIT_S)
                with web_process(tmp_path, address, listen) as again:
                    expect(page.get_by_label("Token")).to_be_visible()
                    page.goto(again.link)
                    page.goto(f"{again.address}/jobs")
                    expect(page.locator(f"[data-job={second}]")).to_contain_text("Placing")
