"""Past runs and results of simulations as pages."""

from __future__ import annotations

import asyncio
import csv
import os
import shutil
from pathlib import Path

import pytest

from koala.lab.papers.tables import COLUMNS
from koala.web.settings import WebSettings
from tests.web.pages import web

pytestmark = pytest.mark.live
MARKUP = "<script>1</script>"
PNG = b"\x89PNG\r\n\x1a\n"


def results(folder: Path) -> Path:
    """A folder with the results of one paper, and what must not be shown beside it."""
    (folder / "r" / "hints").mkdir(parents=True)
    (folder / "r" / "empty").mkdir()
    (folder / "secret").mkdir()
    for place in (folder / "r" / "hints", folder / "secret"):
        place.joinpath("figure-02.png").write_bytes(PNG)
        place.joinpath("loads.png").write_bytes(PNG)  # of koala simulate --plot
    (folder / "r" / "link").symlink_to(folder / "secret")
    with (folder / "r" / "hints" / "claims.csv").open("w", newline="", encoding="utf-8") as file:
        table = csv.DictWriter(file, COLUMNS)
        table.writeheader()
        row = dict.fromkeys(COLUMNS, "x")
        table.writerow(row | {"claim": "H1", "claim_verdict": "holds", "comparison": "a < b"})
        table.writerow(row | {"claim": "H2", "claim_verdict": "fails", "comparison": MARKUP})
    return folder / "r"


async def test_results_are_shown_and_nothing_beside_them(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    settings = WebSettings(results=results(tmp_path))
    async with web(tmp_path, monkeypatch, settings) as found, found.signed_in() as browser:
        listed = (await browser.get("/results")).text
        assert 'href="/results/hints"' in listed
        assert "empty" not in listed
        assert "/results/link" not in listed
        page = (await browser.get("/results/hints")).text
        assert 'src="/results/hints/figure-02.png"' in page
        assert 'src="/results/hints/loads.png"' in page
        assert ">holds<" in page
        assert MARKUP not in page
        figure = await browser.get("/results/hints/figure-02.png")
        assert (figure.content, figure.headers["content-type"]) == (PNG, "image/png")
        for path in ("link", "..%2fsecret", "empty", "hints/claims.csv"):
            assert (await browser.get(f"/results/{path}")).status_code in (404, 422), path
        assert (await browser.get("/replay")).status_code == 409


async def test_no_link_below_the_results_is_followed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Not of a file, not of a folder, not swapped in meanwhile; and nothing else is no file."""
    root = results(tmp_path)
    hints, secret = root / "hints", tmp_path / "secret"
    hints.joinpath("linked.png").symlink_to(secret / "loads.png")
    os.mkfifo(hints / "pipe.png")
    (root / "folder.png").mkdir()
    root.joinpath("root.png").symlink_to(secret / "loads.png")
    (root / "other").mkdir()
    (root / "other" / "claims.csv").symlink_to(hints / "claims.csv")
    async with (
        web(tmp_path, monkeypatch, WebSettings(results=root)) as found,
        found.signed_in() as browser,
    ):
        listed = (await browser.get("/results")).text
        assert "/results/." not in listed
        assert "/results/other" not in listed
        page = (await browser.get("/results/hints")).text
        for name in ("linked.png", "pipe.png"):
            assert name not in page
            assert (await browser.get(f"/results/hints/{name}")).status_code == 422
        async with asyncio.TaskGroup() as group:
            stop = asyncio.Event()
            swapping = group.create_task(swap(hints, secret, stop))
            for _ in range(50):
                figure = await browser.get("/results/hints/swapped.png")
                assert figure.status_code == 422 or figure.content == b"own", figure.text
                folder = await browser.get("/results/moved/swapped.png")
                assert folder.status_code == 422 or folder.content == b"own", folder.text
            stop.set()
        assert swapping.result() > 0


async def swap(hints: Path, secret: Path, stop: asyncio.Event) -> int:
    """Swap a file and a folder for links to others, again and again; return how often."""
    secret.joinpath("swapped.png").write_bytes(b"secret")
    own, moved, count = hints / "own.png", hints.parent / "moved", 0
    while not stop.is_set():
        for is_link in (True, False):
            own.symlink_to(secret / "swapped.png") if is_link else own.write_bytes(b"own")
            own.rename(hints / "swapped.png")
            if is_link:
                moved.symlink_to(secret)
                await asyncio.sleep(0)
                moved.unlink()
            else:
                moved.mkdir()
                moved.joinpath("swapped.png").write_bytes(b"own")
                await asyncio.sleep(0)
                shutil.rmtree(moved)
        count += 1
    return count


async def test_operators_can_play_back_a_past_run(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "state").mkdir(mode=0o700)
    settings = WebSettings(journal=tmp_path / "state")
    async with web(tmp_path, monkeypatch, settings) as found:
        async with found.stage.client() as client:
            job = await client.submit("&(executable=/bin/true)(count=4)")
            await client.cancel(job.job)
        ann = await found.stage.user("ann")
        async with found.signed_in(ann.token) as hers:
            assert (await hers.get("/replay")).status_code == 403
            assert (await hers.get("/replay/data")).status_code == 403
        async with found.signed_in() as browser:
            ((submitted_at, started_at, ended_at),) = (await browser.get("/replay/data")).json()[
                "runs"
            ]["recorded"]["jobs"]
            assert started_at is None
            assert submitted_at < ended_at
            assert "<dt>Cancelled</dt><dd>1</dd>" in (await browser.get("/replay")).text
            assert (await browser.get("/results")).status_code == 409
