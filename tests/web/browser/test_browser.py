"""A real Chromium in front of a real grid: jobs from submission to end, roles, restarts, hostile
texts, small screens, and the rules of accessibility."""

from __future__ import annotations

import re
from collections.abc import Iterator
from itertools import product
from pathlib import Path
from typing import Any

import pytest
from axe_playwright_python.sync_playwright import Axe
from playwright.sync_api import expect

from koala.views.cells import milliseconds, processor_time
from tests.cli.command import LIMIT_S
from tests.cli.grids import Up, daemon_process, up
from tests.harness.ports import free_port
from tests.web.browser.stage import (
    DESKTOP,
    LIMIT_MS,
    PHONE,
    WebProcess,
    chromium,
    page_of,
    web_process,
)
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
        page.get_by_label("Program and arguments").fill("hostname -f")
        page.get_by_role("checkbox", name=re.compile("vu")).check()
        page.get_by_label("Processors at each").fill("2")
        page.get_by_role("button", name="Write the description").click()
        text = page.get_by_label("Description in YAML")
        expect(text).to_have_value(re.compile(r'site: vu\n.*hostname\n.*"-f"'))
        text.fill("components: [{executable: hostname, site: vuu}]")
        expect(page.locator("#verdict")).to_contain_text("did you mean vu?")
        page.get_by_role("link", name="Two programs together").click()
        expect(page.locator("#verdict")).to_contain_text("This can be submitted.")
        text.fill("&(executable=/bin/true)(count=oops)")
        expect(page.locator("#verdict")).to_contain_text("oops")
        expect(page.locator("#verdict")).to_contain_text("line 1")
        text.fill(PAIR.replace("GO", str(go)))
        expect(page.locator("#verdict")).to_contain_text("This can be submitted.")
        page.get_by_role("button", name="Submit").click()
        heading = page.get_by_role("heading", level=1)
        expect(heading).to_contain_text("Running")
        expect(page.locator(".steps [aria-current=step]")).to_have_text("Running")
        job = page.url.rpartition("/")[2]
        part(page, "Timeline")
        expect(page.locator("svg .running").first).to_be_visible()
        page.evaluate("window.wasKept = true")
        go.touch()
        expect(heading).to_contain_text("Finished")
        assert page.evaluate("window.wasKept"), "the page was loaded again"
        shown = document(grid, "show", job)
        expect(page.get_by_role("region", name="Arrivals and passes")).to_contain_text("left")
        expect(page.locator("b.big")).to_have_text(milliseconds(shown["timeline"]["start_skew_s"]))
        part(page, "Logs")
        expect(page.locator("#log")).to_contain_text("left is done")
        expect(page.locator("#log")).to_contain_text("right is done")
        part(page, "Overview")
        run_s = sum(claim["run_s"] for claim in shown["charges"])
        expect(page.get_by_role("region", name="Usage by claim").locator("tfoot")).to_contain_text(
            processor_time(run_s)
        )
        for one in shown["parts"]:
            row = page.get_by_role("region", name="Components").get_by_role(
                "row", name=re.compile(f"^{one['label']}")
            )
            expect(row).to_contain_text(one["site"])
        part(page, "Description")
        page.get_by_role("link", name="Clone with changes").click()
        expect(text).to_have_value(re.compile("label: left"))


def part(page: Any, word: str) -> None:
    """Go to a part of a job's page."""
    page.get_by_role("navigation", name="Parts of the job").get_by_role("link", name=word).click()
    expect(page.get_by_role("link", name=word, exact=True)).to_have_attribute(
        "aria-current", "page"
    )


def test_the_timeline_zooms_and_leads_to_jobs(grid: Up, web: WebProcess, browser: Any) -> None:
    job = submitted(grid.address, SLEEP)
    with page_of(browser, web) as page:
        page.goto(f"{web.address}/?span=600")
        chart = page.locator(".grid-chart")
        bar = chart.locator(f'a.claim[href="/jobs/{job}"]').first
        expect(bar.locator("rect.running").first).to_be_attached()  # it came by itself
        expect(page.locator("#link")).to_have_text("live")
        box = chart.bounding_box()
        y = box["y"] + box["height"] / 2
        page.mouse.move(box["x"] + box["width"] * 0.5, y)
        page.mouse.down()
        page.mouse.move(box["x"] + box["width"] * 0.75, y, steps=4)
        page.mouse.up()
        page.wait_for_url(re.compile(r"span=1[45]\d&until="))
        page.goto(f"{web.address}/?span=600")
        expect(page.locator("#link")).to_have_text("live")
        page.get_by_role("link", name="Zoom in").click()
        page.wait_for_url(re.compile("span=300"))
        expect(page.get_by_role("link", name="Up to now")).to_have_attribute("aria-current", "true")
        page.get_by_role("link", name=re.compile("^Open vu")).press("Enter")
        page.wait_for_url(re.compile("open=vu"))
        expect(page.get_by_role("link", name=re.compile("^Close vu"))).to_be_focused()
        page.keyboard.press("-")
        page.wait_for_url(re.compile("span=600"))
        chart.locator('a.claim[tabindex="0"]').focus()
        for _ in range(2 * chart.locator("a.claim").count()):  # a press may meet a new drawing
            page.keyboard.press("ArrowRight")
        last = chart.locator("a.claim").last
        expect(last).to_be_focused()
        assert command(grid.address, "cancel", job).returncode == 0
        expect(bar.locator("rect.running")).to_have_count(0)  # drawn anew
        expect(last).to_be_focused()
        page.get_by_text("As a table").click()
        table = page.get_by_role("region", name="Claims of the period")
        expect(table).to_contain_text(job)
        bar.focus()
        page.keyboard.press("Enter")
        expect(page.get_by_role("heading", level=1)).to_contain_text(job)


COLOURS = r"""printf '\033[31mred\033[0m plain \033[1;44mbold\033[0m\033]0;title\007\n'
i=0; while [ $i -lt 1200 ]; do i=$((i+1)); echo "line $i"; done; echo "$MARKUP" >&2; exit 3
"""


def test_logs_are_chosen_searched_and_coloured(
    grid: Up, web: WebProcess, browser: Any, tmp_path: Path
) -> None:
    script = tmp_path / "colours.sh"
    script.write_text(COLOURS.replace("$MARKUP", MARKUP), encoding="utf-8")
    text = f"components: [{{executable: sh, arguments: [{script}], site: vu}}]"
    job = command(grid.address, "submit", "-", "--wait", stdin=text.encode()).stdout.strip()
    with page_of(browser, web) as page:
        page.goto(f"{web.address}/jobs/{job}?part=logs")
        log, place = page.locator("#log"), page.locator("#log-place")
        expect(place).to_have_text("Lines 703 to 1202 of 1202")
        assert log.locator(":scope > div").count() == 500
        page.get_by_role("button", name="Earlier").click()
        expect(place).to_have_text("Lines 303 to 802 of 1202")
        page.get_by_label("Lines with").fill("red plain")
        expect(place).to_have_text("Lines 1 to 1 of 1")
        expect(log.locator(".fg-1")).to_have_text("red")
        expect(log.locator(".bold.bg-4")).to_have_text("bold")
        expect(log).not_to_contain_text("title")
        page.get_by_label("Lines with").fill("")
        page.get_by_label("Stream").select_option("stderr")
        expect(log.locator(".err")).to_contain_text(MARKUP)
        expect(place).to_have_text("Lines 1 to 1 of 1")
        assert page.locator("main img, main script, #log img").count() == 0
        with page.expect_download() as download:
            page.get_by_role("link", name="Download").click()
        assert MARKUP in Path(download.value.path()).read_text(encoding="utf-8")
        assert "line 7" not in Path(download.value.path()).read_text(encoding="utf-8")


FUZZ = Path(__file__).parent / "ansi_fuzz.js"


def test_any_line_of_a_log_becomes_bounded_text(web: WebProcess, browser: Any) -> None:
    with page_of(browser, web) as page:
        found = page.evaluate(FUZZ.read_text(encoding="utf-8"), f"{web.address}/static/ansi.js")
    assert found["wrong"] == []
    assert found["parts"] <= 200
    assert found["length"] <= 20_000
    assert found["ms"] < 1_000


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
        page.get_by_role("link", name="vu", exact=True).first.click()
        page.get_by_role("button", name="Drain").click()
        page.get_by_role("dialog").get_by_role("button", name="Drain").click()
        expect(page.get_by_role("heading", level=1)).to_contain_text("drained")
        page.get_by_role("button", name="Resume").click()
        expect(page.get_by_role("heading", level=1)).to_contain_text("usable")


def test_names_of_users_run_no_script(grid: Up, web: WebProcess, browser: Any) -> None:
    text = f'&(executable=/bin/false)(name="{MARKUP}")(count=1)'
    run = command(grid.address, "submit", "-", "--wait", stdin=text.encode())
    job = run.stdout.strip()
    with page_of(browser, web) as page:
        for path in (f"jobs/{job}", "?span=600", "jobs", f"submit?clone={job}"):
            page.goto(f"{web.address}/{path}")
            assert page.locator("main img, main script").count() == 0
            assert MARKUP in page.content().replace("&lt;", "<").replace("&gt;", ">")
        page.goto(f"{web.address}/jobs?text={MARKUP}&owner={MARKUP}&phase={MARKUP}")
        assert page.locator("main img, main script").count() == 0
        page.goto(f"{web.address}/sites/<img src=x onerror=window.owned=1>")
        expect(page.locator(".notice")).to_contain_text("onerror")
        page.goto(f"{web.address}/submit")
        page.get_by_label("Description in YAML").fill(f"&(executable={MARKUP})")
        expect(page.locator("#verdict")).to_have_class("verdict bad")
        assert page.evaluate("window.owned") is None


CUT = """() => [...document.querySelectorAll("main *")].filter((one) =>
  one.clientWidth > 1 && one.scrollWidth > one.clientWidth + 1 && !one.closest("svg")
  && getComputedStyle(one).overflowX !== "visible"
  && getComputedStyle(one).textOverflow !== "ellipsis").map((one) => one.outerHTML.slice(0, 120))"""
"""Elements whose content is cut without a cue, or scrolls sideways."""


def test_every_page_is_accessible_and_fits_any_screen(
    grid: Up, web: WebProcess, browser: Any
) -> None:
    parts = [f"/jobs/j1?part={part}" for part in ("overview", "timeline", "logs", "description")]
    paths = (
        "/?span=600&open=vu", "/jobs", *parts, "/sites/vu", "/queues", "/report", "/submit",
        "/jobs/j999999",
    )  # fmt: skip
    for scheme, screen in product(("light", "dark"), (PHONE, DESKTOP)):
        with page_of(browser, web, color_scheme=scheme, viewport=screen) as page:
            for path in paths:
                page.goto(web.address + path)
                for summary in page.locator("summary").all():
                    summary.click()
                found = [
                    (one["id"], [node["html"] for node in one["nodes"]][:3])
                    for one in Axe().run(page).response["violations"]
                ]
                assert found == [], (scheme, path)
                assert page.evaluate("document.scrollingElement.scrollWidth") <= screen["width"]
                assert page.evaluate(CUT) == [], path
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
