"""Past runs and results of simulations as pages."""

from __future__ import annotations

import csv
from pathlib import Path

import pytest

from koala.papers.tables import COLUMNS
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


async def test_operators_can_play_back_a_past_run(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
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
