"""A real browser in front of the pages of a real grid."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from playwright.sync_api import sync_playwright

from tests.cli.command import LIMIT_S, environment

LIMIT_MS = 20_000
CHROMIUM_VARIABLE = "KOALA_CHROMIUM"
WIDTH, HEIGHT = 1200, 800
PHONE = {"width": 375, "height": 700}
DESKTOP = {"width": 1280, "height": 800}


@contextmanager
def chromium() -> Iterator[Any]:
    """The Chromium of this machine, without windows; there must be one."""
    path = os.environ.get(CHROMIUM_VARIABLE) or shutil.which("chromium")
    assert path, f"no Chromium: apt install chromium, or name one in {CHROMIUM_VARIABLE}"
    with sync_playwright() as play:
        browser = play.chromium.launch(executable_path=path, args=["--no-sandbox"])
        try:
            yield browser
        finally:
            browser.close()


@dataclass(slots=True, kw_only=True)
class WebProcess:
    """A running `koala web`, and the file with its present sign-in link."""

    process: subprocess.Popen[str]
    link_file: Path
    address: str

    @property
    def link(self) -> str:
        """The sign-in link that is good now."""
        return self.link_file.read_text(encoding="utf-8").strip()


@contextmanager
def web_process(
    folder: Path, daemon: str, listen: str = "127.0.0.1:0", *more: str
) -> Iterator[WebProcess]:
    """`koala web` for a daemon, with `more` options; it is ended with the block."""
    link_file = folder / "web.link"
    link_file.unlink(missing_ok=True)
    words = ["web", "--listen", listen, "--link-file", str(link_file), "--address", daemon, *more]
    process = subprocess.Popen(
        [sys.executable, "-m", "koala.cli", *words],
        env=environment(PYTHONUNBUFFERED="1"),
        stderr=subprocess.PIPE,
        text=True,
    )
    assert process.stderr is not None
    limit = threading.Timer(LIMIT_S, process.terminate)
    limit.start()
    line = process.stderr.readline()
    limit.cancel()
    assert line.startswith("koala web: open http"), line + process.stderr.read()
    drain = threading.Thread(target=process.stderr.read, daemon=True)
    drain.start()
    try:
        address = line.split()[-1].partition("/sign-in")[0]
        yield WebProcess(process=process, link_file=link_file, address=address)
    finally:
        process.terminate()
        process.wait(LIMIT_S)
        drain.join()
        process.stderr.close()


@contextmanager
def page_of(browser: Any, web: WebProcess, token: str = "", **options: Any) -> Iterator[Any]:
    """A page of a signed-in browser of its own; what its console says is an error."""
    options.setdefault("viewport", {"width": WIDTH, "height": HEIGHT})
    context = browser.new_context(**options)
    context.set_default_timeout(LIMIT_MS)
    page = context.new_page()
    errors: list[str] = []
    page.on("pageerror", lambda error: errors.append(str(error)))
    page.on("console", lambda said: errors.append(said.text) if "Content Sec" in said.text else 0)
    if token:
        page.goto(f"{web.address}/sign-in")
        page.get_by_label("Token").fill(token)
        page.get_by_role("button", name="Sign in").click()
        page.get_by_role("heading", name="Grid").wait_for()
    else:
        page.goto(web.link)
    try:
        yield page
        assert errors == []
    finally:
        context.close()
