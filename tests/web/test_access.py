"""Access to the pages: sign-in, sessions, requests of other sites, roles, the audit log."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

import pytest

from koala.client.grid_model import GridModel
from koala.errors import ConfigError
from koala.web.security import BODY_MAX, HEADERS, POLICY
from koala.web.sessions import AGE_MAX_S, IDLE_MAX_S, SESSIONS_MAX, Sessions, SignInCode
from koala.web.settings import WebSettings
from tests.web.pages import ORIGIN, secret, web

live = pytest.mark.live
JOB = "&(executable=/bin/true)(count=4)"


# --- pure -----------------------------------------------------------------------------------------


def test_a_session_ends_by_age_by_idleness_and_by_sign_out() -> None:
    now = [0.0]
    sessions = Sessions(lambda: now[0])
    first, second = sessions.begin("ann"), sessions.begin("ann")
    assert first != second
    session = sessions.find(first)
    assert session is not None
    for _ in range(int(AGE_MAX_S / IDLE_MAX_S * 2)):
        now[0] += IDLE_MAX_S / 2
        sessions.find(first)
    assert sessions.find(second) is None  # idle
    assert sessions.find(first) is not None
    now[0] += 1
    assert sessions.find(first) is None  # old
    third = sessions.begin("ann")
    sessions.end(third)
    assert sessions.find(third) is None
    assert sessions.find(None) is None
    assert sessions.find("x" * 10_000) is None


def test_sessions_are_limited_in_all_and_for_each_identity() -> None:
    sessions = Sessions(lambda: 0.0)
    own = [sessions.begin("ann") for _ in range(SESSIONS_MAX)]
    assert len(sessions) == SESSIONS_MAX // 5
    assert sessions.find(own[-1]) is not None
    assert sessions.find(own[0]) is None
    for number in range(2 * SESSIONS_MAX):
        sessions.begin(f"u{number}")
    assert len(sessions) == SESSIONS_MAX
    first = sessions.find(sessions.begin("bob"))
    assert first is not None
    sessions.end_all("bob")
    assert first.is_over
    assert not sessions.has(first)


def test_a_sign_in_code_is_good_once_and_replaced() -> None:
    codes: list[str] = []
    code = SignInCode(codes.append)
    code.publish()
    assert not code.use("guess")
    assert code.use(codes[0])
    assert not code.use(codes[0])
    assert code.use(codes[1])
    assert len(set(codes)) == 3


@pytest.mark.parametrize(
    ("words", "text"),
    [
        ({"listen": "0.0.0.0:80"}, "expected a loopback address"),
        ({"listen": "localhost"}, "expected HOST:PORT"),
        ({"listen": "localhost:99999"}, "expected HOST:PORT"),
        ({"key": Path("/nowhere")}, "give both, or neither"),
        ({"key": Path("/no"), "certificate": Path("/no")}, "expected a PEM file"),
        ({"public_url": "grid.example.org"}, "expected an address as in"),
        ({"public_url": "http://grid.example.org"}, "expected https"),
        ({"public_url": "https://ann@grid.example.org"}, "expected an address as in"),
    ],
)
def test_wrong_settings_are_refused(words: Mapping[str, str], text: str) -> None:
    with pytest.raises(ConfigError, match=text):
        WebSettings(**words)  # type: ignore[arg-type]


# --- with a daemon --------------------------------------------------------------------------------


@live
async def test_only_requests_of_own_pages_are_answered(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with web(tmp_path, monkeypatch) as found, found.signed_in() as browser:
        good = await browser.get("/")
        assert good.status_code == 200
        for name, value in HEADERS.items():
            assert good.headers[name] == value
        assert good.headers["cache-control"] == "no-store"
        assert "unsafe" not in good.headers["content-security-policy"]
        page = await browser.get("/static/page.js")
        assert (page.status_code, page.headers["cache-control"]) == (200, "no-cache")
        assert (await browser.get("/", headers={"host": "evil.example:7780"})).status_code == 403
        csrf = await secret(browser)
        form = {"csrf": csrf, "text": JOB}
        for wrong in (
            {"origin": "http://evil.example"},
            {"origin": "null"},
            {"sec-fetch-site": "cross-site"},
            {"sec-fetch-site": "same-site"},
            {"content-length": str(BODY_MAX + 1)},
        ):
            refused = await browser.post("/submit", data=form, headers=wrong)
            assert refused.status_code == 403, wrong
        for own in ("", csrf[:-1], "x" * len(csrf)):
            refused = await browser.post("/submit", data={"csrf": own, "text": JOB})
            assert refused.status_code == 403
            assert "another session" in refused.text
        async with found.stage.client() as client:
            assert await client.list_jobs() == []
        accepted = await browser.post("/submit", data=form, headers={"origin": ORIGIN})
        assert (accepted.status_code, accepted.headers["location"]) == (303, "/jobs/j1")
        picture = await browser.get("/jobs/j1/timeline.svg")
        assert picture.headers["content-type"].startswith("image/svg+xml")
        assert "<title>j1 over " in picture.text


@live
async def test_a_link_signs_in_once_and_the_cookie_is_kept_from_scripts(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with web(tmp_path, monkeypatch) as found, found.browser() as browser:
        asked = await browser.get("/jobs/j1")
        assert (asked.status_code, asked.headers["location"]) == (303, "/sign-in?back=/jobs/j1")
        assert (
            await browser.get("/events", headers={"accept": "text/event-stream"})
        ).status_code == 401
        assert (await browser.post("/jobs/j1/cancel")).status_code == 401
        link = found.links[-1]
        answer = await browser.get(link)
        cookie = answer.headers["set-cookie"]
        assert "HttpOnly" in cookie
        assert "samesite=strict" in cookie.lower()
        assert "Secure" not in cookie
        assert (await browser.get("/")).status_code == 200
        async with found.browser() as other:
            assert (await other.get(link)).status_code == 403
            assert (await other.get(found.links[-1])).status_code == 303
        out = await browser.post("/sign-out", data={"csrf": await secret(browser)})
        assert out.status_code == 303
        assert (await browser.get("/")).status_code == 303
        for back in ("//evil.example", "https://evil.example", "/\\evil.example"):
            form = {"token": found.stage.administrator.token, "back": back}
            assert (await browser.post("/sign-in", data=form)).headers["location"] == "/"


@live
async def test_a_mistake_in_a_page_is_said_in_words_and_one_line(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    async def fail(*_: object) -> dict[str, object]:
        raise ValueError("no number\nof this kind")

    async with web(tmp_path, monkeypatch) as found, found.signed_in() as browser:
        monkeypatch.setattr(GridModel, "queues", fail)
        capsys.readouterr()
        for _ in range(3):
            answer = await browser.get("/queues")
            assert answer.status_code == 500
            assert "This page failed, and this is a mistake in Koala: ValueError" in answer.text
            assert answer.headers["content-security-policy"] == POLICY
        (line,) = capsys.readouterr().out.splitlines()
        assert "page.failed" in line
        assert "test_access.py" in line
        assert (await browser.get("/jobs")).status_code == 200


@live
async def test_the_daemon_decides_what_users_see_and_do(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with web(tmp_path, monkeypatch) as found:
        ann, bob = await found.stage.user("ann"), await found.stage.user("bob")
        async with found.signed_in(ann.token) as hers, found.signed_in(bob.token) as his:
            text = "&(executable=/bin/true)(count=4)(name=secret-of-ann)"
            form = {"csrf": await secret(hers), "text": text}
            job = (await hers.post("/submit", data=form)).headers["location"]
            assert "secret-of-ann" in (await hers.get(job)).text
            assert "secret-of-ann" in (await hers.get("/queues")).text
            queued = (await his.get("/queues")).text
            assert "None of these is yours" in queued
            assert "secret-of-ann" not in queued
            async with found.stage.client(bob) as client:
                low = next(one for one in (await client.queues()).queues if one.queue == "low")
                assert (low.jobs, low.first) == (1, ())
            async with found.stage.client(ann) as client:
                low = next(one for one in (await client.queues()).queues if one.queue == "low")
                assert [(one.position, one.job) for one in low.first] == [(1, "j1")]
                assert "secret-of-ann" in (await client.show("j1"))["description"]
            assert "secret-of-ann" in (await hers.get("/submit?clone=j1")).text
            for path in (job, f"{job}/logs.txt", f"{job}?part=logs", "/submit?clone=j1"):
                refused = await his.get(path)
                assert refused.status_code == 404, path
                assert "secret-of-ann" not in refused.text
            others = await his.get("/jobs")
            assert others.status_code == 200
            assert "secret-of-ann" not in others.text
            cancelled = await his.post(f"{job}/cancel", data={"csrf": await secret(his)})
            assert cancelled.status_code == 403
            drained = await his.post("/sites/vu/drain", data={"csrf": await secret(his)})
            assert drained.status_code == 403
            done = await hers.post(f"{job}/cancel", data={"csrf": await secret(hers)})
            assert (done.status_code, done.headers["location"]) == (303, job)
            lines = [(x["who"], x["verb"], x["outcome"]) for x in found.stage.log()]
            assert ("ann", "Cancel", "done") in lines
            assert any(who == "bob" and "refused" in outcome for who, _, outcome in lines)
            async with found.stage.client() as client:
                await client.revoke_user("ann")
            assert (await hers.get("/submit")).status_code in (200, 303)  # known or not by now
            denied = await hers.post("/submit", data=form)
            assert denied.status_code == 401
            again = await hers.post("/sign-in", data={"token": ann.token})
            assert again.status_code == 403
        async with found.browser() as stranger:
            for token in ("", "x", "\u2713", "x" * 1_000):
                assert (await stranger.post("/sign-in", data={"token": token})).status_code == 403
