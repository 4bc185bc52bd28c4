"""A user's jobs are the user's: for anybody else but operators they are not there."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import aclosing, asynccontextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import grpc
import pytest

from koala.client import AsyncClient
from koala.common.protocol.versions import PROTOCOL
from koala.common.runtime import clock
from koala.common.wire.status import PROTOCOL_KEY, TOKEN_KEY, TOKEN_SCHEME, USER_KEY
from koala.common.wire.v1 import koala_pb2, koala_pb2_grpc
from koala.daemon.auth import credential_store
from koala.daemon.auth import interceptor as gate
from koala.errors import (
    DeniedError,
    RejectedError,
    SpecError,
    UnauthenticatedError,
    UnknownJobError,
)
from tests.common.identity.stage import LIMIT_S, Secured, secured
from tests.daemon.running import config_of, running

pytestmark = pytest.mark.live

ONE = "&(executable=/bin/true)(count=4)"
NOT_THERE = "j99"


@dataclass
class Cast:
    """A daemon, two users and an operator, and a job of Ann's."""

    stage: Secured
    ann: AsyncClient
    bob: AsyncClient
    operator: AsyncClient
    job: str


@asynccontextmanager
async def cast(folder: Path) -> AsyncIterator[Cast]:
    async with secured(folder) as stage:
        ann, bob = await stage.user("ann"), await stage.user("bob")
        operator = await stage.user("olga", "operator")
        async with stage.client(ann) as a, stage.client(bob) as b, stage.client(operator) as o:
            job = (await a.submit(ONE, key="k")).job
            yield Cast(stage, a, b, o, job)


async def logs(client: AsyncClient, job: str) -> list[Any]:
    return [part async for part in client.logs(job)]


async def watched(client: AsyncClient, job: str) -> Any:
    async with aclosing(client.watch(after=0, job=job)) as notices:  # type: ignore[type-var]
        return await anext(notices)


QUESTIONS: dict[str, Callable[[AsyncClient, str], Awaitable[Any]]] = {
    "show": AsyncClient.show,
    "why": AsyncClient.why,
    "timeline": AsyncClient.timeline,
    "wait": AsyncClient.wait,
    "logs": logs,
    "watch": watched,
}


async def test_what_is_asked_of_anothers_job_is_answered_as_if_it_were_not_there(
    tmp_path: Path,
) -> None:
    async with cast(tmp_path) as them:
        for name, ask in QUESTIONS.items():
            told = []
            for job in (them.job, NOT_THERE):
                with pytest.raises(UnknownJobError) as refused:
                    await ask(them.bob, job)
                told.append(str(refused.value).replace(job, "JOB"))
            assert told[0] == told[1], name
        for client in (them.ann, them.operator):
            for name in ("show", "why", "timeline", "watch"):
                assert await QUESTIONS[name](client, them.job)


async def test_lists_reports_and_watches_have_only_what_is_ones_own(tmp_path: Path) -> None:
    async with cast(tmp_path) as them:
        own = (await them.bob.submit(ONE)).job
        assert [job["job"] for job in await them.bob.list_jobs()] == [own]
        assert await them.bob.list_jobs(owner="ann") == []
        assert [job["job"] for job in await them.operator.list_jobs()] == [them.job, own]
        for client in (them.ann, them.bob):
            await client.cancel([them.job, own])
        rows = (await them.bob.report("job"))["rows"]
        assert [row["job"] for row in rows] == [own]
        rows = (await them.operator.report("user"))["rows"]
        assert [row["user"] for row in rows] == ["ann", "bob"]
        # The operator watches first: what is kept for later watchers has the jobs of all users.
        assert await watched_until_over(them.operator, own) == {them.job, own}
        assert await watched_until_over(them.bob, own) == {own}


async def watched_until_over(client: AsyncClient, last: str) -> set[str]:
    """Return the jobs of the notices that a watcher of everything gets until a job's end."""
    seen = set()
    async with (
        asyncio.timeout(LIMIT_S),
        aclosing(client.watch(after=0)) as notices,  # type: ignore[type-var]
    ):
        async for notice in notices:
            seen.add(notice["job"])
            if notice["job"] == last and notice["phase"] == "Cancelled":
                break
    return seen - {""}


async def test_who_submits_is_who_was_authenticated(tmp_path: Path) -> None:
    """Whatever the client says: names in metadata mean nothing, and keys are a user's own."""
    async with cast(tmp_path) as them:
        mallory = AsyncClient(
            them.stage.address, user="ann", credentials=await them.stage.user("mallory")
        )
        async with mallory, them.stage.channel(None) as channel:
            assert (await mallory.hello())["user"] == "mallory"
            job = (await mallory.submit(ONE, key="k")).job
            assert job != them.job
            token = TOKEN_SCHEME + (await them.stage.user("mallory")).token
            reply = await koala_pb2_grpc.KoalaStub(channel).Submit(
                koala_pb2.SubmitRequest(submissions=[koala_pb2.Submission(rsl=ONE)]),
                metadata=((PROTOCOL_KEY, str(PROTOCOL)), (USER_KEY, "ann"), (TOKEN_KEY, token)),
                timeout=LIMIT_S,
            )
        owners = {row["job"]: row["owner"] for row in await them.operator.list_jobs()}
        assert owners[job] == owners[reply.results[0].job] == "mallory"
        assert owners[them.job] == "ann"


# --- tokens ---------------------------------------------------------------------------------------


async def test_a_revoked_user_is_refused_at_once(tmp_path: Path) -> None:
    async with cast(tmp_path) as them:
        async with them.stage.client() as administrator:
            await administrator.revoke_user("ann")
            states = {user["user"]: user["state"] for user in await administrator.users()}
            assert states["ann"] == "revoked"
        with pytest.raises(UnauthenticatedError, match="replaced or revoked"):
            await them.ann.list_jobs()


async def test_a_new_token_ends_the_old_one(tmp_path: Path) -> None:
    async with cast(tmp_path) as them:
        async with them.stage.client(await them.stage.user("ann")) as again:
            assert [job["job"] for job in await again.list_jobs()] == [them.job]
        with pytest.raises(UnauthenticatedError):
            await them.ann.list_jobs()


async def test_a_token_expires(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    async with secured(tmp_path) as stage:
        credentials = await stage.user("ann", expires_s=60)
        async with stage.client(credentials) as ann:
            assert (await ann.hello())["role"] == "user"
            monkeypatch.setattr(credential_store, "unix_now", lambda: clock.unix_now() + 61)
            with pytest.raises(UnauthenticatedError, match=r"token of ann expired \d+ s ago"):
                await ann.hello()


async def test_where_no_administrator_is_left_the_next_start_makes_one(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with secured(tmp_path) as stage:
        await stage.user(stage.administrator.user, "administrator", expires_s=60)
    monkeypatch.setattr(credential_store, "unix_now", lambda: clock.unix_now() + 61)
    async with secured(tmp_path) as stage, stage.client() as client:
        (user,) = await client.users()
        assert (user["role"], user["state"]) == ("administrator", "good")


@pytest.mark.parametrize("change", ["revoked", "renewed", "lowered", "expired"])
async def test_a_stream_ends_when_its_caller_is_not_believed_any_more(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, change: str
) -> None:
    async with cast(tmp_path) as them, them.stage.channel(None) as channel:
        stub = koala_pb2_grpc.KoalaStub(channel)

        def shown(token: str) -> tuple[tuple[str, str], ...]:
            return ((PROTOCOL_KEY, str(PROTOCOL)), (TOKEN_KEY, TOKEN_SCHEME + token))

        before = clock.unix_now()
        otto = shown((await them.stage.user("otto", "operator", expires_s=60.0)).token)
        if change == "expired":  # three seconds after a stream has begun, whenever that is
            monkeypatch.setattr(gate, "unix_now", lambda: before + 57.0)
        following = koala_pb2.LogsRequest(job=them.job, follow=True)
        logs, watch, other = (
            stub.Logs(following, metadata=otto),
            stub.Watch(koala_pb2.WatchRequest(after=0), metadata=otto),
            stub.Watch(
                koala_pb2.WatchRequest(after=0), metadata=shown(them.stage.administrator.token)
            ),
        )
        for watching in (watch, other):
            assert await watching.read() is not grpc.aio.EOF
        async with them.stage.client() as administrator, asyncio.timeout(60):
            if change == "revoked":
                await administrator.revoke_user("otto")
            elif change == "renewed":
                await administrator.add_user("otto", role="operator")
            elif change == "lowered":
                await administrator.add_user("otto", role="user")
            for call in (logs, watch):
                assert await call.code() is grpc.StatusCode.UNAUTHENTICATED
            await administrator.add_user("eve")
        assert not other.done()
        other.cancel()


@pytest.mark.parametrize(
    "wrong", [{"role": "king"}, {"expires_s": -1.0}, {"expires_s": float("nan")}]
)
async def test_a_wrong_user_is_refused(tmp_path: Path, wrong: dict[str, Any]) -> None:
    async with secured(tmp_path) as stage, stage.client() as client:
        with pytest.raises(SpecError):
            await client.add_user("ann", **wrong)
        for name in ("", "a b", "../x", "a\nb", "x" * 65):
            with pytest.raises(SpecError):
                await client.add_user(name)
        assert [user["user"] for user in await client.users()] == [stage.administrator.user]


async def test_plain_text_knows_no_users(tmp_path: Path) -> None:
    async with (
        running(config_of(tmp_path)) as daemon,
        AsyncClient(daemon.address, user="ann") as client,
    ):
        assert (await client.hello())["user"] == "ann"
        with pytest.raises(RejectedError, match=r"plain text \(daemon.plain = true\)"):
            await client.users()
        with pytest.raises(RejectedError, match="plain text"):
            await client.add_site("delft")


# --- the audit log --------------------------------------------------------------------------------


async def test_the_audit_log_says_who_did_what(tmp_path: Path) -> None:
    async with cast(tmp_path) as them:
        await them.bob.cancel(them.job)
        with pytest.raises(DeniedError):
            await them.bob.drain("delft")
        async with them.stage.client() as administrator:
            lines = await administrator.audit()
            newest = await administrator.audit(last=1)
        assert newest == lines[-1:]
        told = [(line["who"], line["role"], line["verb"], line["object"]) for line in lines]
        root = them.stage.administrator.user
        assert (root, "administrator", "AddUser", "ann user") in told
        assert ("ann", "user", "Submit", them.job) in told
        assert ("bob", "user", "Cancel", them.job) in told
        (refused,) = [line for line in lines if line["verb"] == "ChangeSite"]
        assert refused["outcome"].startswith("refused: bob has the role user")
        assert all(line["from"].startswith("ipv4:127.0.0.1:") for line in lines)
        assert them.stage.log() == [line.document for line in lines]
        assert "List" not in {line["verb"] for line in lines}


async def test_no_secret_is_in_a_log_or_in_what_is_refused(tmp_path: Path) -> None:
    async with secured(tmp_path) as stage:
        token = await stage.token("delft")
        ann = await stage.user("ann")
        secrets = [token.secret, ann.token, ann.token[-20:]]
        wrong = ann.token[:-4] + "xxxx"
        async with stage.channel(None) as channel:
            stub = koala_pb2_grpc.KoalaStub(channel)
            with pytest.raises(grpc.aio.AioRpcError) as refused:
                await stub.ListUsers(
                    koala_pb2.Empty(),
                    metadata=((PROTOCOL_KEY, str(PROTOCOL)), (TOKEN_KEY, TOKEN_SCHEME + wrong)),
                    timeout=LIMIT_S,
                )
        secrets.append(wrong)
        await stage.joined(token)
        texts = []
        for path in (tmp_path / "state").rglob("*"):
            if path.is_file() and path.name != "administrator.toml":
                with suppress(FileNotFoundError):  # what is renamed when it is written
                    texts.append(path.read_text(errors="replace"))
        assert texts
        for secret in secrets:
            assert secret not in str(refused.value)
            assert not any(secret in text for text in texts)
        assert ann.token not in repr(ann)
        assert token.secret not in repr(token)
