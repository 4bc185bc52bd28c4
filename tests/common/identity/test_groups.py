"""Groups of users with limits: administered by commands, stored, told to the core, said by why."""

from __future__ import annotations

import asyncio
import getpass
import json
import os
import sys
from collections.abc import Awaitable, Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from koala.cli.admin.doctor import Examination
from koala.client import AsyncClient
from koala.common.runtime.checkup import Result, examine
from koala.common.runtime.clock import unix_now
from koala.daemon.auth.enrolment_service import OWN_SITES_MAX
from koala.errors import (
    DeniedError,
    RejectedError,
    SpecError,
    UnauthenticatedError,
    UnknownNameError,
)
from koala.views.records.access import Limits
from tests.common.identity.stage import secured

pytestmark = pytest.mark.live

ONE = "&(executable=/bin/true)(count=4)"


async def group_in_the_way(client: AsyncClient, rsl: str = ONE, group: str = "") -> str:
    """The refusal of a job that is larger than its group may have; empty if it is accepted."""
    try:
        await client.submit(rsl, group=group)
    except RejectedError as error:
        return str(error)
    return ""


async def test_a_group_limits_the_jobs_of_its_members_also_after_a_restart(tmp_path: Path) -> None:
    async with secured(tmp_path) as stage, stage.client() as admin:
        ann, bob = await stage.user("ann"), await stage.user("bob")
        made = await admin.set_group("physics", add=["ann"], limits={"jobs": 0, "hold_s": 1e6})
        assert (made.members, made.limits) == (("ann",), Limits(jobs=0, hold_s=1e6))
        async with stage.client(ann) as a, stage.client(bob) as b:
            assert await group_in_the_way(a) == (
                "the job can never start: group physics may have 0 jobs, and this job needs 1"
            )
            assert await group_in_the_way(b) == ""
            assert [group.group for group in await a.groups()] == ["physics"]
            assert await b.groups() == []
    async with secured(tmp_path) as stage, stage.client(ann) as a, stage.client() as admin:
        assert "group physics" in await group_in_the_way(a)
        await admin.set_group("physics", limits={"jobs": "none"})
        job = await a.submit(ONE)
        await job.cancel()
        rows = (await admin.report("group")).document["rows"]
        assert [(row["group"], row["jobs_cancelled"]) for row in rows] == [("physics", 1)]


async def test_a_job_names_its_group_or_has_that_of_its_user(tmp_path: Path) -> None:
    async with secured(tmp_path) as stage, stage.client() as admin:
        ann = await stage.user("ann")
        for name in ("physics", "biology"):
            await admin.set_group(name, add=["ann"], limits={"jobs": 0})
        async with stage.client(ann) as a:
            assert "physics" in await group_in_the_way(a)
            assert "biology" in await group_in_the_way(a, f"{ONE}(group=biology)")
            assert "biology" in await group_in_the_way(a, group="biology")
            await admin.set_user("ann", group="biology")
            assert "biology" in await group_in_the_way(a)
            with pytest.raises(RejectedError, match=r"ann is not a member \(expected one of biol"):
                await a.submit(ONE, group="chemistry")
            await admin.remove_group("biology")
            assert await group_in_the_way(a) == ""


async def test_a_user_changes_without_a_new_token(tmp_path: Path) -> None:
    async with secured(tmp_path) as stage, stage.client() as admin:
        ann = await stage.user("ann", expires_s=3600.0)
        found = await admin.set_user("ann", role="operator", expires_s=0.0, limits={"gpus": 2})
        assert (found.role, found.expires_at, found.limits) == ("operator", None, Limits(gpus=2))
        async with stage.client(ann) as a:
            assert (await a.hello()).role == "operator"
        assert (await admin.add_user("ann")).limits == Limits(gpus=2)  # a new token keeps them


WRONG: dict[str, tuple[Callable[[AsyncClient], Awaitable[Any]], type[Exception], str]] = {
    "number": (
        lambda c: c.set_group("physics", limits={"jobs": -1}),
        SpecError,
        r"jobs = '-1' \(expected a whole number from 0 to 10000000, or none\)",
    ),
    "name": (lambda c: c.set_group("physics", limits={"cores": 1}), SpecError, "limit 'cores'"),
    "shares": (lambda c: c.set_user("ann", limits={"shares": 0}), SpecError, "shares = '0'"),
    "member": (lambda c: c.set_group("physics", add=["eve"]), UnknownNameError, "no user 'eve'"),
    "no member": (lambda c: c.set_group("physics", remove=["ann"]), UnknownNameError, "no member"),
    "user": (lambda c: c.set_user("eve", role="user"), UnknownNameError, "no user 'eve'"),
    "group": (lambda c: c.set_user("ann", group="x"), RejectedError, "expected no group"),
    "removed": (lambda c: c.remove_group("x"), UnknownNameError, "no group 'x'"),
    "last": (
        lambda c: c.set_user(getpass.getuser(), role="user"),
        SpecError,
        "is the last administrator",
    ),
}


async def test_a_wrong_change_says_what_is_wrong_and_changes_nothing(tmp_path: Path) -> None:
    async with secured(tmp_path) as stage, stage.client() as admin:
        await stage.user("ann")
        store = stage.config.state_dir / "authority" / "enrolments.json"
        before = store.read_bytes()
        for ask, kind, text in WRONG.values():
            with pytest.raises(kind, match=text):
                await ask(admin)
        assert store.read_bytes() == before


async def test_only_administrators_change_groups(tmp_path: Path) -> None:
    async with secured(tmp_path) as stage:
        olga = await stage.user("olga", "operator")
        async with stage.client(olga) as operator:
            for change in (
                operator.set_group("physics"),
                operator.remove_group("physics"),
                operator.set_user("olga", role="administrator"),
            ):
                with pytest.raises(DeniedError):
                    await change
            assert await operator.groups() == []


async def test_a_user_adds_and_revokes_sites_that_serve_the_user_alone(tmp_path: Path) -> None:
    async with secured(tmp_path) as stage, stage.client() as admin:
        ann, bob = await stage.user("ann"), await stage.user("bob")
        await admin.add_site("everybodys")
        async with stage.client(ann) as a, stage.client(bob) as b:
            assert (await a.add_site("atlas-ann")).owner == "ann"
            for name, owner in (("atlas-ann", ""), ("mine", "ann"), ("everybodys", "")):
                with pytest.raises(DeniedError, match="a new site that serves this user alone"):
                    await b.add_site(name, owner=owner)
            for name in ("atlas-ann", "everybodys", "unknown"):
                with pytest.raises(UnknownNameError, match=f"no site '{name}'"):
                    await b.revoke_site(name)
            assert [site.site for site in await a.enrolments()] == ["atlas-ann"]
            for number in range(OWN_SITES_MAX):
                await b.add_site(f"of-bob-{number}")
            with pytest.raises(RejectedError, match=f"bob has {OWN_SITES_MAX} sites"):
                await b.add_site("one-more")
            await b.add_site("of-bob-1")  # a new token
            assert (await a.revoke_site("atlas-ann")).state == "revoked"
        everything = {site.site: site.state for site in await admin.enrolments()}
        states = {name: everything[name] for name in ("atlas-ann", "everybodys")}
        assert states == {"atlas-ann": "revoked", "everybodys": "awaited"}


async def test_an_invitation_is_exchanged_once_and_good_for_nothing_else(tmp_path: Path) -> None:
    async with secured(tmp_path) as stage, stage.client() as admin:
        invited = await admin.add_user("ann", expires_s=3600.0, invited_s=60.0)
        shown = replace(stage.administrator, user="ann", token=invited["token"])
        async with stage.client(shown) as a:
            with pytest.raises(DeniedError, match="ann is invited, and has no credentials yet"):
                await a.submit(ONE)
            made = await a.renew_token()
            with pytest.raises(UnauthenticatedError):
                await a.renew_token()
        assert made.expires_at is not None
        lifetime_s = float(made.expires_at) - unix_now()
        assert 3000 < lifetime_s <= 3600
        async with stage.client(replace(shown, token=made["token"])) as a:
            assert (await a.hello()).user == "ann"
            again = await a.renew_token()
            assert again.expires_at == made.expires_at  # nobody lengthens its own life


def test_the_command_line_exchanges_an_invitation_for_a_file(tmp_path: Path) -> None:
    """As an administrator and a new user would: two commands, and a file of mode 0600."""

    async def scene() -> None:
        async with secured(tmp_path / "daemon") as stage:
            administrator = stage.config.state_dir / "authority" / "administrator.toml"
            environment = {**os.environ, "KOALA_CREDENTIALS": str(administrator)}
            invite = await koala("user", "invite", "ann", environment=environment)
            line = invite.splitlines()[1]
            own = {**os.environ, "XDG_CONFIG_HOME": str(tmp_path / "ann")}
            own.pop("KOALA_CREDENTIALS", None)
            said = await koala("login", environment=own, text=line + "\n")
            path = tmp_path / "ann" / "koala" / "credentials.toml"
            assert said == f"ann, user: credentials are in {path}\n"
            assert path.stat().st_mode & 0o777 == 0o600
            assert json.loads(await koala("list", "--json", environment=own))["jobs"] == []
            assert "exists" in await koala("login", environment=own, text=line + "\n")
            path.unlink()
            assert "replaced or revoked" in await koala("login", environment=own, text=line + "\n")

    asyncio.run(scene())


async def koala(*words: str, environment: dict[str, str], text: str = "") -> str:
    """Run a command and return its output, or its error."""
    process = await asyncio.create_subprocess_exec(
        *(sys.executable, "-m", "koala.cli", *words),
        env=environment,
        stdin=asyncio.subprocess.PIPE,
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.PIPE,
    )
    out, err = await process.communicate(text.encode())
    return (out if process.returncode == 0 else err).decode()


async def test_credentials_that_end_soon_are_a_warning_and_their_use_is_noted(
    tmp_path: Path,
) -> None:
    async with secured(tmp_path) as stage, stage.client() as admin:
        for name, days in (("ann", 2), ("bob", 30)):
            credentials = await stage.user(name, expires_s=days * 86_400.0)
            async with stage.client(credentials) as client:
                examination = Examination(client)
                await examination.daemon()
                found = await examine({"identity": examination.checks["identity"]}, lambda _: None)
                assert (found[0].result is Result.WARNING) == (name == "ann")
                assert "they expire in " in found[0].text
        used = {user.user: user.used_at for user in await admin.users()}
        assert None not in used.values()
