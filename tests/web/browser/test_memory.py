"""Pages that stay open for a long time stay small: an hour of 50 jobs a minute, sped up."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from playwright.sync_api import expect

from koala.client import Client, JobHandle
from tests.cli.grids import up
from tests.web.browser.following import renderers
from tests.web.browser.stage import LIMIT_MS, chromium, page_of, web_process

pytestmark = pytest.mark.browser
expect.set_options(timeout=LIMIT_MS)
MINUTES, JOBS_A_MINUTE = 60, 50
MEMORY_MAX = 150_000_000
WAITS = "+(name=long-name-of-a-job)" + "(&(executable=/bin/sleep)(arguments=60)(count=4))" * 2


def test_pages_that_were_open_for_an_hour_are_small(tmp_path: Path) -> None:
    with (
        up(tmp_path) as grid,
        web_process(tmp_path, grid.address) as web,
        chromium() as browser,
        page_of(browser, web) as jobs,
    ):
        whole: Any = jobs.context.new_page()
        whole.goto(f"{web.address}/")
        jobs.goto(f"{web.address}/jobs")
        with Client(grid.address) as client:
            for _ in range(MINUTES):
                handles = client.submit_many([WAITS] * JOBS_A_MINUTE)
                names = [one.job for one in handles if isinstance(one, JobHandle)]
                newest = jobs.locator(f"[data-job={names[-1]}]")
                expect(newest).to_be_visible()
                client.cancel(names)
                expect(newest).to_contain_text("Cancelled")
        assert jobs.locator("tbody tr").count() <= 50
        assert whole.locator("#under-way tbody tr").count() <= 50
        found = renderers()
        assert found
        assert max(found.values()) < MEMORY_MAX, found
        print(f"memory of the pages: {[round(one / 1e6) for one in found.values()]} MB")
