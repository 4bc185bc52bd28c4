"""Every number on a page is that of `--json`: pages and commands in front of the same real grid."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager
from html.parser import HTMLParser
from typing import Any

import httpx
import pytest

from koala.client import AsyncClient, AsyncJobHandle
from koala.core.purge import CHUNK
from koala.views.cells import duration
from koala.web.app import make_app
from koala.web.settings import WebSettings
from tests.cli.grids import GRID, Up, up
from tests.web.pages import ORIGIN, PORT

pytestmark = pytest.mark.live
LIMIT_S = 60.0
KEPT = 2
PAIR = "+(distinct=yes)(&(executable=/bin/true)(count=2))(&(executable=/bin/true)(count=1))"
FAILS = "&(executable=/bin/false)(count=1)"
LONG = "&(executable=/bin/sleep)(arguments=600)(count=3)"
LARGE = "&(executable=/bin/true)(count=4)(resourceManagerContact=delft)"


class Tables(HTMLParser):
    """The rows of all tables of a page by their first cell, and the texts of marked elements."""

    def __init__(self, page: str) -> None:
        super().__init__()
        self.rows: dict[str, list[str]] = {}
        self.marked: dict[str, str] = {}
        self.instants: dict[str, float] = {}
        self._row: list[str] | None = None
        self._mark = ""
        self.feed(page)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        """Begin a row, a cell, or a marked element."""
        values = dict(attrs)
        if tag == "tr":
            self._row = []
        elif tag in ("td", "th") and self._row is not None:
            self._row.append("")
        self._mark = values.get("data-total") or ""
        if tag == "time" and self._row:
            self.instants[self._row[0].strip()] = float(values["data-at"] or 0)

    def handle_endtag(self, tag: str) -> None:
        """Keep the first row of each name."""
        if tag == "tr" and self._row:
            self.rows.setdefault(self._row[0].strip(), [cell.strip() for cell in self._row[1:]])
            self._row = None

    def handle_data(self, data: str) -> None:
        """Add text to the cell."""
        if self._mark:
            self.marked[self._mark] = data.strip()
            self._mark = ""
        if self._row:
            self._row[-1] += data


@pytest.fixture(scope="module")
def grid(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Up]:
    """A grid of two sites that soon archives jobs, with jobs that ended, run and wait."""
    text = (
        f"{GRID}\n[journal]\nkeep_jobs = {KEPT}\n[links.bandwidth]\ndelft = {{ vu = 2_500_000 }}\n"
    )
    with up(tmp_path_factory.mktemp("g"), text) as running:
        for one in (PAIR, FAILS, PAIR, PAIR):
            running.submit(one)
            running.koala("wait", f"j{len(documents(running, 'list', '--all')['jobs'])}")
        asyncio.run(cancelled(running.address, 3 * CHUNK))
        job = running.submit(LONG)
        while documents(running, "show", job)["phase"] != "Running" or claimed(running) != 3:
            pass  # claims of cancelled jobs may be leaving
        running.submit(LARGE.replace("delft", documents(running, "show", job)["sites"][0]))
        yield running
        running.koala("cancel", job)


def claimed(grid: Up) -> int:
    """Count the processors that are claimed, on all sites."""
    return sum(site["claimed"] for site in documents(grid, "site")["sites"])


async def cancelled(address: str, count: int) -> None:
    """Cancel so many new jobs; most of them leave the daemon's memory."""
    async with AsyncClient(address) as client:
        handles = await client.submit_many([LONG] * count)
        await client.cancel([one.job for one in handles if isinstance(one, AsyncJobHandle)])


def documents(grid: Up, *words: str) -> dict[str, Any]:
    """Return the document that a command prints with --json."""
    run = grid.koala(*words, "--json")
    assert run.returncode == 0, run.stderr
    found = json.loads(run.stdout)
    assert isinstance(found, dict)
    return found


@asynccontextmanager
async def browser(grid: Up) -> AsyncIterator[httpx.AsyncClient]:
    """A browser that is signed in."""
    links: list[str] = []
    app = make_app(WebSettings(), grid.address, port=PORT, link=links.append)
    async with (
        app.router.lifespan_context(app),
        httpx.AsyncClient(
            transport=httpx.ASGITransport(app=app),
            base_url=ORIGIN,
            headers={"accept": "text/html"},
        ) as client,
    ):
        assert (await client.get(links[-1])).status_code == 303
        yield client


async def read(client: httpx.AsyncClient, path: str) -> Tables:
    answer = await client.get(path)
    assert answer.status_code == 200, answer.text
    return Tables(answer.text)


def numbers_of(sites: Any) -> list[tuple[int, ...]]:
    """Return what the grid's page shows of each site: running, waiting, others, idle and all."""
    return [
        (
            one["running"],
            one["held"],
            one["local"],
            one["idle"],
            one["processors"],
        )
        for one in sites
    ]


async def page_with_sites(client: httpx.AsyncClient, grid: Up) -> tuple[Tables, Any]:
    """Read the sites, and the grid's page once it shows them: it is told of changes a moment
    later."""
    while True:
        page = await read(client, "/")
        sites = (await asyncio.to_thread(documents, grid, "site"))["sites"]
        shown = [page.rows[site["site"]][2:7] for site in sites]
        if shown == [[str(number) for number in numbers] for numbers in numbers_of(sites)]:
            return page, sites


async def test_sites_and_their_sums(grid: Up) -> None:
    async with browser(grid) as client, asyncio.timeout(LIMIT_S):
        page, sites = await page_with_sites(client, grid)
    whole = dict.fromkeys(("processors", "running", "waiting", "others", "idle"), 0)
    for site in sites:
        (numbers,) = numbers_of([site])
        for name, number in zip(
            ("running", "waiting", "others", "idle", "processors"), numbers, strict=True
        ):
            whole[name] += number
    assert page.marked == {name: str(number) for name, number in whole.items()}
    assert whole["running"] == 3
    links = {site["site"]: site["links"] for site in sites}
    assert links == {"delft": [{"to": "vu", "bytes_per_s": 2_500_000.0, "copies": 0}], "vu": []}
    assert page.rows["delft → vu"] == ["2.5 MB/s", "0"]


async def test_the_timeline_has_the_claims_of_the_command_line(grid: Up) -> None:
    async with browser(grid) as client:
        pages = [await client.get(path) for path in ("/", "/timeline?span=86400", "/timeline.svg")]
        wrong = await client.get("/timeline?site=nowhere")
        odd = await client.get("/?span=x&until=99999999999&open=%3Cb%3Eodd")
    found = (await asyncio.to_thread(documents, grid, "timeline", "--grid"))["claims"]
    assert found
    assert {page.status_code for page in (*pages, odd)} == {200}
    for claim in found:
        assert claim["site"] in Tables(pages[0].text).rows[claim["job"]]
        assert all(f"{claim['job']}, {claim['part']} at" in page.text for page in pages)
    assert (wrong.status_code, "expected one of" in wrong.text) == (404, True)
    assert "<b>odd" not in odd.text
    for words, text in (
        ("j1 --grid", "expected a job, or --grid"),
        ("", "expected a job, or --grid"),
        ("j1 --since 2026-01-01", "allowed with --grid only"),
        ("--grid --since 2026-02-01 --until 2026-01-01", "the first must be before"),
        ("--grid --site vuu", "expected one of delft, vu"),
    ):
        run = await asyncio.to_thread(grid.koala, "timeline", *words.split())
        assert run.returncode != 0
        assert text in run.stderr


async def test_jobs_archived_ones_among_them(grid: Up) -> None:
    async with browser(grid) as client:
        known = (await client.get("/jobs")).text
        pages = [await read(client, f"/jobs?past=1&page={number}") for number in range(1, 9)]
        archived = Tables("")
        for page in reversed(pages):
            archived.rows |= page.rows
            archived.instants |= page.instants
        failed = await read(client, "/jobs?past=1&phase=Failed")
        searched = await read(client, "/jobs?past=1&text=false")
        every = (await asyncio.to_thread(documents, grid, "list", "--all"))["jobs"]
    jobs = {job["job"]: job for job in every}
    assert len(jobs) == 6 + 3 * CHUNK
    assert jobs.keys() == archived.rows.keys() & jobs.keys()
    assert list(pages[0].rows)[1:51] == list(reversed(jobs))[:50]
    count = int(known.split('id="count">')[1].split("<")[0])
    assert count < len(jobs), "some are archived"
    for name, job in jobs.items():
        shown = archived.rows[name]
        assert (shown[1], shown[2]) == (job["owner"], job["phase"])
        assert shown[3].split(" in ")[0] == str(job["processors"])
        assert archived.instants[name] == job["submitted_at"]
        if job["started_at"] is not None:
            assert shown[6] == duration(job["started_at"] - job["submitted_at"])
        if job["ended_at"] is not None and job["started_at"] is not None:
            assert shown[7] == duration(job["ended_at"] - job["started_at"])
    assert [name for name in failed.rows if name in jobs] == ["j2"]
    assert [name for name in searched.rows if name in jobs] == ["j2"]


def test_the_rows_of_a_page_are_read() -> None:
    found = Tables("<table><tr><th>a</th><td>1 <b>2</b></td></tr></table><p data-total=x>7</p>")
    assert (found.rows, found.marked) == ({"a": ["1 2"]}, {"x": "7"})
