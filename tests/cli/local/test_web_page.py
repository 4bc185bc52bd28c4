"""`koala up` starts the web page of its grid, and says where it is."""

from __future__ import annotations

from pathlib import Path

import httpx
import pytest

from tests.cli.grids import up

pytestmark = pytest.mark.live

ONE_SITE = "[sites.delft]\nsite = { processors = 4 }\n"


def test_the_link_of_the_web_page_that_is_said_signs_in(tmp_path: Path) -> None:
    with up(tmp_path, ONE_SITE, has_page=True) as grid:
        link = grid.wait_said("web page: ")
        with httpx.Client(trust_env=False) as browser:
            assert browser.get(link).status_code == 303
            page = browser.get(httpx.URL(link).join("/"))
    assert page.status_code == 200
    assert "delft" in page.text
