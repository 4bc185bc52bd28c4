"""Makes the pictures of docs/guides/web.md: `make screenshots`, of a real grid with real jobs."""

from __future__ import annotations

import tempfile
from pathlib import Path

from playwright.sync_api import expect

from tests.cli.grids import Up, up
from tests.tidy.sources import ROOT
from tests.web.browser.stage import LIMIT_MS, chromium, page_of, web_process
from tests.web.browser.steps import submitted

TARGET = ROOT / "docs" / "images"
SITE = """
[sites.{name}]
site = {{ processors = {processors}, grace_s = 20.0 }}
load = {{ arrivals_per_hour = 600, run_mean_s = 30, size_max = 16 }}
"""
SIZES = {"amsterdam": 64, "delft": 64, "leiden": 64, "vu": 144}
HEAD = """
[parameters]
claiming_step_min_s = 0.2
[links.bandwidth]
amsterdam = { delft = 120_000_000, vu = 1_100_000_000 }
delft = { leiden = 90_000_000 }
"""
GRID = HEAD + "".join(
    SITE.format(name=name, processors=processors) for name, processors in SIZES.items()
)
PAIR = """+(&(executable=/bin/sh)(arguments=-c "echo the west half; sleep 12; echo converged")
  (count=24)(jobType=single)(label=west)(name=heat-equation)(resourceManagerContact=delft))
 (&(executable=/bin/sh)(arguments=-c "echo the east half; sleep 12; echo converged")
  (count=32)(jobType=single)(label=east)(resourceManagerContact=vu))
 (&(executable=/bin/sh)(arguments=-c "echo drawing; sleep 13")(count=4)(jobType=single)
  (label=viewer)(resourceManagerContact=amsterdam))"""
LONG = (
    "&(executable=/bin/sleep)(arguments=300)(count={count})(name={name})"
    "(resourceManagerContact={site})"
)
LONG_JOBS = (
    (24, "climate-2050", "leiden"),
    (12, "protein-fold", "amsterdam"),
    (60, "lattice", "vu"),
)
FALSE = "&(executable=/bin/false)(count=2)(name=broken-input)"


def main() -> None:
    """Start a grid, run jobs on it, and take the pictures."""
    TARGET.mkdir(exist_ok=True)
    with (
        tempfile.TemporaryDirectory(prefix="koala-") as folder,
        up(Path(folder), GRID) as grid,
        web_process(Path(folder), grid.address, *_journal(grid)) as web,
        chromium() as browser,
    ):
        submitted(grid.address, FALSE)
        for count, name, site in LONG_JOBS:
            submitted(grid.address, LONG.format(count=count, name=name, site=site))
        job = submitted(grid.address, PAIR)
        with page_of(browser, web) as page:
            page.goto(f"{web.address}/jobs/{job}?part=timeline")
            heading = page.get_by_role("heading", level=1)
            expect(heading).to_contain_text("Running", timeout=LIMIT_MS)
            submitted(grid.address, PAIR)
            expect(heading).to_contain_text("Finished", timeout=LIMIT_MS)
            page.screenshot(path=TARGET / "web-job.png", full_page=True)
            page.goto(f"{web.address}/?span=120")
            expect(page.locator("#link")).to_have_text("live")
            page.screenshot(path=TARGET / "web-grid.png", full_page=True)
            page.goto(f"{web.address}/replay?with=placement%3DCF&with=queueing%3DLS-OR")
            expect(page.locator("[data-now=what_if]")).to_contain_text("run", timeout=LIMIT_MS)
            slider = page.get_by_label("Instant of the run")
            slider.focus()
            for _ in range(4):
                slider.press("PageDown")
            page.screenshot(path=TARGET / "web-replay.png", full_page=True)
            page.goto(f"{web.address}/jobs")
            expect(page.locator("#link")).to_have_text("live")
            page.emulate_media(color_scheme="dark")
            page.screenshot(path=TARGET / "web-jobs.png", full_page=True)


def _journal(grid: Up) -> tuple[str, ...]:
    """Words of `koala web` for the grid's own journal as the past run."""
    return "127.0.0.1:0", "--journal", str(Path(grid.said_state()) / "daemon")


if __name__ == "__main__":
    main()
