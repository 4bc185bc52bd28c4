"""The pages of a real daemon for tests, without a socket in between."""

from __future__ import annotations

import re
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import httpx
import pytest
from starlette.applications import Starlette

from koala.web.app import make_app
from koala.web.settings import WebSettings
from tests.common.identity.stage import Secured, secured

PORT = 7780
ORIGIN = f"http://127.0.0.1:{PORT}"


class Web:
    """The application of a daemon with TLS, and the sign-in links that it has made."""

    def __init__(self, stage: Secured, app: Starlette, links: list[str]) -> None:
        self.stage = stage
        self.app = app
        self.links = links

    def browser(self) -> httpx.AsyncClient:
        """A browser that nobody has signed in."""
        return httpx.AsyncClient(
            transport=httpx.ASGITransport(app=self.app),
            base_url=ORIGIN,
            headers={"accept": "text/html"},
        )

    @asynccontextmanager
    async def signed_in(self, token: str = "") -> AsyncIterator[httpx.AsyncClient]:
        """A browser signed in with a token; without one by the link, as the administrator."""
        async with self.browser() as browser:
            if token:
                answer = await browser.post("/sign-in", data={"token": token, "back": "/"})
            else:
                answer = await browser.get(self.links[-1])
            assert answer.status_code == 303, answer.text
            yield browser


@asynccontextmanager
async def web(
    folder: Path,
    monkeypatch: pytest.MonkeyPatch,
    settings: WebSettings | None = None,
) -> AsyncIterator[Web]:
    """A daemon with TLS and its pages; the web process has the administrator's credentials."""
    async with secured(folder) as stage:
        own = stage.config.state_dir / "authority" / "administrator.toml"
        monkeypatch.setenv("KOALA_CREDENTIALS", str(own))
        links: list[str] = []
        app = make_app(settings or WebSettings(), stage.address, port=PORT, link=links.append)
        async with app.router.lifespan_context(app):
            yield Web(stage, app, links)


async def secret(browser: httpx.AsyncClient, path: str = "/submit") -> str:
    """The secret that forms of this session carry."""
    found = re.search(r'name="csrf" value="([^"]+)"', (await browser.get(path)).text)
    assert found is not None
    return found[1]
