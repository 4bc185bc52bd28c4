"""Enrolment of sites: tokens that are good once, certificates that are renewed and revoked."""

from __future__ import annotations

import asyncio
import errno
import os
import re
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, NoReturn

import grpc
import pytest

from koala.common.identity.keys import expires_at, make_request
from koala.common.identity.tls import Identity, IdentityFile, JoinToken, identity_path
from koala.common.protocol.versions import PROTOCOL
from koala.common.runtime import clock
from koala.common.wire.v1 import link_pb2
from koala.common.wire.v1.identity_pb2 import RenewRequest
from koala.common.wire.v1.identity_pb2_grpc import EnrolmentStub
from koala.common.wire.v1.link_pb2_grpc import AgentLinkStub
from koala.daemon.agents import streams
from koala.daemon.auth import credential_store
from koala.daemon.auth import interceptor as gate
from koala.daemon.auth.access_rules import Role
from koala.daemon.auth.credential_store import CredentialStore
from koala.daemon.config import CERTIFICATE_DAYS_MIN
from koala.errors import (
    ConfigError,
    ExhaustedError,
    RejectedError,
    SpecError,
    UnauthenticatedError,
    UnknownNameError,
    UnreachableError,
)
from koala_agent.link import certificate_renewal as renewing
from koala_agent.link.certificate_renewal import Renewal, pause_s
from koala_agent.link.enrolment import join
from tests.common.identity.stage import LIMIT_S, Forge, Secured, identity_of, secured

pytestmark = pytest.mark.live


@asynccontextmanager
async def linked(stage: Secured, identity: Identity, site: str) -> AsyncIterator[Any]:
    """A stream of an agent that has registered as a site, and what it heard."""
    async with stage.channel(identity) as channel:
        call = AgentLinkStub(channel).Connect()
        register = link_pb2.Register(
            protocol=PROTOCOL,
            site=site,
            session="s",
            facts=link_pb2.Facts(processors=4, grace_s=5.0),
        )
        await call.write(link_pb2.FromAgent(register=register))
        await call.write(link_pb2.FromAgent(inventory_end=link_pb2.InventoryEnd()))
        try:
            yield call
        finally:
            call.cancel()


async def first(call: Any, kind: str) -> Any:
    """The first message of a kind that the stream brings."""
    async with asyncio.timeout(LIMIT_S):
        while (message := await call.read()) is not grpc.aio.EOF:
            if message.WhichOneof("kind") == kind:
                return message
    raise AssertionError(f"the stream ended without {kind}: {await call.details()}")


async def refusal(stage: Secured, identity: Identity) -> str:
    """Return why an agent with this certificate is not let in."""
    async with stage.channel(identity) as channel:
        call = AgentLinkStub(channel).Connect(timeout=LIMIT_S)
        with pytest.raises(grpc.aio.AioRpcError) as refused:
            await call.read()
    assert refused.value.code() is grpc.StatusCode.UNAUTHENTICATED
    return str(refused.value.details())


async def renewed(stage: Secured, identity: Identity) -> Identity:
    """The site's next certificate."""
    key, request = make_request("renewal")
    async with stage.channel(identity) as channel:
        message = RenewRequest(request=request)
        issued = await EnrolmentStub(channel).Renew(message, timeout=LIMIT_S)
    return identity_of(key, issued)


# --- join tokens ----------------------------------------------------------------------------------


async def test_a_token_is_good_once(tmp_path: Path) -> None:
    async with secured(tmp_path) as stage:
        token = await stage.token("delft")
        assert token.secret not in (tmp_path / "state/authority/enrolments.json").read_text()
        await join(token, "delft", tmp_path / "agent")
        with pytest.raises(UnauthenticatedError, match="used before"):
            await join(token, "delft", tmp_path / "thief")
        assert not identity_path(tmp_path / "thief").exists()


async def test_a_token_is_not_good_for_long(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with secured(tmp_path) as stage:
        token = await stage.token("delft", ttl_s=60)
        monkeypatch.setattr(credential_store, "unix_now", lambda: clock.unix_now() + 61.0)
        with pytest.raises(UnauthenticatedError, match=r"expired \d+ s ago"):
            await join(token, "delft", tmp_path / "agent")


async def test_a_token_is_good_for_its_site_only(tmp_path: Path) -> None:
    async with secured(tmp_path) as stage:
        token = await stage.token("delft")
        await stage.token("leiden")
        with pytest.raises(ConfigError, match=r"is for site 'delft', agent\.site is 'leiden'"):
            await join(token, "leiden", tmp_path / "agent")
        with pytest.raises(UnauthenticatedError, match="not valid"):
            await join(replace(token, site="leiden"), "leiden", tmp_path / "agent")


async def test_a_newer_token_ends_an_older_one(tmp_path: Path) -> None:
    async with secured(tmp_path) as stage:
        older, newer = await stage.token("delft"), await stage.token("delft")
        with pytest.raises(UnauthenticatedError, match="replaced"):
            await join(older, "delft", tmp_path / "agent")
        await join(newer, "delft", tmp_path / "agent")


async def test_a_token_of_another_daemon_sends_no_secret_to_this_one(tmp_path: Path) -> None:
    async with secured(tmp_path / "a") as here, secured(tmp_path / "b") as there:
        token = await there.token("delft")
        with pytest.raises(UnauthenticatedError, match="signed by another authority"):
            await join(replace(token, address=here.address), "delft", tmp_path / "agent")
        assert [line for line in here.log() if line["verb"] == "Join"] == []


@pytest.mark.parametrize(
    "text", ["", "x", "koala-join|2|a|b|c|d", "koala-join|1|a|b|c", "koala_0123_secretsecret"]
)
def test_what_is_no_token_is_told_without_showing_it(text: str) -> None:
    with pytest.raises(ConfigError) as refused:
        JoinToken.parse(text)
    assert "secretsecret" not in str(refused.value)


def test_a_token_is_one_line_that_carries_all(tmp_path: Path) -> None:
    authority = Forge(tmp_path).identity("x").authority
    token = JoinToken(site="delft", address="[::1]:7740", secret="s-_s", authority=authority)
    assert JoinToken.parse(token.text() + "\n") == token
    assert "\n" not in token.text()
    assert "s-_s" not in repr(token)


# --- certificates ---------------------------------------------------------------------------------


async def test_a_certificate_binds_its_site(tmp_path: Path) -> None:
    async with secured(tmp_path) as stage:
        identity = await stage.site("delft")
        await stage.site("leiden")
        async with linked(stage, identity, "leiden") as call:
            rejection = (await first(call, "reject")).reject
        assert "the certificate shown is of site delft" in rejection.reason
        assert rejection.is_final
        async with stage.client() as client:
            assert await client.sites() == []


async def test_an_older_certificate_ends_when_the_newer_one_was_used(tmp_path: Path) -> None:
    async with secured(tmp_path) as stage:
        old = await stage.site("delft")
        new = await renewed(stage, old)
        async with linked(stage, old, "delft") as call:
            await first(call, "welcome")  # a crash between signing and storing costs nothing
        async with linked(stage, new, "delft") as call:
            await first(call, "welcome")
        assert "was replaced by a newer one" in await refusal(stage, old)
        with pytest.raises(grpc.aio.AioRpcError, match="replaced by a newer one"):
            await renewed(stage, old)
        async with linked(stage, new, "delft") as call:
            await first(call, "welcome")


async def test_revoking_cuts_the_link_and_ends_every_certificate(tmp_path: Path) -> None:
    async with secured(tmp_path) as stage:
        old = await stage.site("delft")
        new = await renewed(stage, old)
        async with linked(stage, new, "delft") as call, stage.client() as client:
            await first(call, "welcome")
            await client.revoke_site("delft")
            rejection = (await first(call, "reject")).reject
            assert "was revoked by" in rejection.reason
            assert (await client.enrolments())[0]["state"] == "revoked"
        for identity in (old, new):
            assert "was revoked" in await refusal(stage, identity)
        again = await stage.site("delft")
        async with linked(stage, again, "delft") as call:
            await first(call, "welcome")
        assert "replaced by a newer one" in await refusal(stage, new)


async def test_revoked_stays_revoked_over_a_restart(tmp_path: Path) -> None:
    async with secured(tmp_path) as stage:
        identity = await stage.site("delft")
        async with stage.client() as client:
            await client.revoke_site("delft")
            with pytest.raises(UnknownNameError, match="atlantis"):
                await client.revoke_site("atlantis")
    async with secured(tmp_path) as stage:
        assert "was revoked" in await refusal(stage, identity)


MONTH_S = 31 * 86_400.0


@pytest.mark.parametrize(("ahead_s", "limit"), [(-MONTH_S, "from"), (MONTH_S, "until")])
async def test_a_site_is_away_with_a_reason_if_its_certificate_is_not_valid_by_the_daemons_clock(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capfd: pytest.CaptureFixture[str],
    ahead_s: float,
    limit: str,
) -> None:
    """Once in the log of a daemon that starts with such a clock, and to all who see the site."""
    async with secured(tmp_path) as stage:
        identity = await stage.site("delft")
        async with linked(stage, identity, "delft") as call:
            await first(call, "welcome")
    monkeypatch.setattr(credential_store, "unix_now", lambda: clock.unix_now() + ahead_s)
    capfd.readouterr()
    async with secured(tmp_path) as stage, stage.client() as client, asyncio.timeout(LIMIT_S):
        (site,) = await client.sites()
    says = rf"its certificate is valid {limit} 20.* UTC, and the daemon's clock says 20.* UTC"
    assert re.fullmatch(says, site["trouble"]), site
    assert "".join(capfd.readouterr()).count("site.certificate_not_valid") == 1


async def test_a_link_ends_with_its_certificate(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(streams, "EXPIRY_CHECK_S", 0.1)
    async with secured(tmp_path) as stage:
        identity = await stage.site("delft")
        async with linked(stage, identity, "delft") as call:
            await first(call, "welcome")
            monkeypatch.setattr(streams, "unix_now", lambda: clock.unix_now() + MONTH_S)
            rejection = (await first(call, "reject")).reject
            assert "the certificate of delft has expired" in rejection.reason


async def test_a_connection_does_not_outlive_its_certificate(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The handshake was well; each later call on the same connection is looked at, too."""
    async with secured(tmp_path) as stage:
        identity = await stage.site("delft")
        async with stage.channel(identity) as channel:
            message = RenewRequest(request=make_request("renewal")[1])
            stub = EnrolmentStub(channel)
            await stub.Renew(message, timeout=LIMIT_S)
            monkeypatch.setattr(gate, "unix_now", lambda: clock.unix_now() + MONTH_S)
            with pytest.raises(grpc.aio.AioRpcError, match="site delft has expired"):
                await stub.Renew(message, timeout=LIMIT_S)


async def test_an_agent_renews_by_itself_and_dials_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    now = clock.unix_now
    monkeypatch.setattr(clock, "unix_now", lambda: now() + MONTH_S * 0.8)
    async with secured(tmp_path) as stage:
        path = await join(await stage.token("delft"), "delft", tmp_path / "agent")
        before = Identity.read(path)
        dialled = asyncio.Event()
        renewal = Renewal(IdentityFile(path), stage.address, redial=lambda _: dialled.set())
        async with asyncio.TaskGroup() as group:
            task = group.create_task(renewal.run())
            async with asyncio.timeout(LIMIT_S):
                await dialled.wait()
            task.cancel()
        after = Identity.read(path)
        assert after.certificate != before.certificate
        assert after.key != before.key
        async with linked(stage, after, "delft") as call:
            await first(call, "welcome")
        assert "was replaced by a newer one" in await refusal(stage, before)


async def test_a_renewal_that_failed_is_tried_again_when_the_daemon_is_back(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Until then the site's administrator is told."""
    now = clock.unix_now
    monkeypatch.setattr(clock, "unix_now", lambda: now() + MONTH_S * 0.8)
    monkeypatch.setattr(renewing, "RETRY_MAX_S", 0.0)
    async with secured(tmp_path) as stage:
        path = await join(await stage.token("delft"), "delft", tmp_path / "agent")
        before = Identity.read(path)
        changed, dialled = asyncio.Event(), asyncio.Event()

        async def away(*_: object, **__: object) -> NoReturn:
            raise UnreachableError("it does not answer")

        renewal = Renewal(
            IdentityFile(path), stage.address, redial=lambda _: dialled.set(), changed=changed.set
        )
        async with asyncio.timeout(LIMIT_S), asyncio.TaskGroup() as group:
            with monkeypatch.context() as patch:
                patch.setattr(renewing, "dial", away)
                task = group.create_task(renewal.run())
                await changed.wait()
                ends = datetime.fromtimestamp(expires_at(before.certificate), UTC)
                assert renewal.trouble == (
                    f"its certificate, which ends at {ends:%Y-%m-%d %H:%M:%S} UTC, cannot be"
                    " renewed: it does not answer"
                )
            await dialled.wait()
            task.cancel()
        assert Identity.read(path).certificate != before.certificate
        assert not renewal.trouble


def test_tries_to_renew_are_seldom_at_first_and_many_at_the_end() -> None:
    assert pause_s(10 * 86_400.0) == 600.0
    assert pause_s(3000.0) == 300.0
    assert pause_s(50.0) == 10.0
    assert pause_s(-1.0) == 600.0, "it is too late: only koala site add helps"
    left_s, tries = CERTIFICATE_DAYS_MIN * 86_400.0 / 3, 0
    while left_s > 0:
        left_s -= pause_s(left_s)
        tries += 1
    assert tries > 20, "of the shortest certificate's last third"


# --- changes that are refused ---------------------------------------------------------------------


CHANGES: list[Callable[[CredentialStore], object]] = [
    lambda known: known.add_site("delft", owner="", by="root"),
    lambda known: known.add_site("leiden", owner="eve", by="root"),
    lambda known: known.enrol("leiden", serial="cd", expires_at=9e9),
    lambda known: known.enrol("delft", serial="cd", expires_at=9e9),
    lambda known: known.add_renewal("leiden", "cd", 9e9),
    lambda known: known.revoke_site("leiden"),
    lambda known: known.add_user("ann", Role.OPERATOR, by="root"),
    lambda known: known.add_user("bob", Role.USER, by="root"),
    lambda known: known.revoke_user("ann"),
]


@pytest.mark.parametrize("change", CHANGES)
def test_what_cannot_be_written_is_not_believed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, change: Callable[[CredentialStore], object]
) -> None:
    tmp_path.chmod(0o700)
    wrong = [errno.ENOSPC, errno.EIO]

    def failing(_: Path, __: bytes) -> None:
        number = wrong.pop(0) if wrong else errno.EIO
        raise OSError(number, os.strerror(number))

    one = CredentialStore(tmp_path)
    one.enrol("leiden", serial="ab", expires_at=9e9)
    token = one.add_user("ann", Role.USER, by="root")
    two = CredentialStore(tmp_path)
    monkeypatch.setattr(credential_store, "write_private", failing)
    with pytest.raises(ExhaustedError, match=r"No space left on device\): nothing was changed"):
        change(two)
    with pytest.raises(RejectedError, match="nothing was changed"):
        change(two)
    assert (two.sites, two.users) == (one.sites, one.users)
    assert two.user_of_token(token).role is Role.USER
    assert two.check_site("leiden", "ab").owner == ""


@pytest.mark.parametrize(
    ("change", "can_wait"),
    [*zip(CHANGES, (True, True, False, False, False, False, True, True, False), strict=True)],
)
def test_who_is_let_in_does_not_take_the_ballast(
    tmp_path: Path, change: Callable[[CredentialStore], object], *, can_wait: bool
) -> None:
    """It can wait until there is room; who is seen off, and a site that renews, cannot."""
    surely = []

    def write_with_ballast(write: Callable[[], None]) -> None:
        surely.append(write)
        write()

    tmp_path.chmod(0o700)
    known = CredentialStore(tmp_path, write_with_ballast)
    known.enrol("leiden", serial="ab", expires_at=9e9)
    known.add_user("ann", Role.USER, by="root")
    surely.clear()
    change(known)
    assert bool(surely) is not can_wait


def test_the_last_administrator_stays_one(tmp_path: Path) -> None:
    tmp_path.chmod(0o700)
    known = CredentialStore(tmp_path)
    token = known.add_user("root", Role.ADMINISTRATOR, by="root")
    for refused in (
        lambda: known.add_user("root", Role.USER, by="root"),
        lambda: known.add_user("root", Role.OPERATOR, by="root"),
        lambda: known.revoke_user("root"),
    ):
        with pytest.raises(SpecError, match="root is the last administrator"):
            refused()
        assert known.user_of_token(token).role is Role.ADMINISTRATOR
    known.add_user("second", Role.ADMINISTRATOR, by="root")
    known.add_user("root", Role.USER, by="second")
    assert known.has_administrator
