"""Groups of users with limits: administered by commands, stored, told to the core, said by why."""

from __future__ import annotations

import getpass
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

import pytest

from koala.client import AsyncClient
from koala.errors import DeniedError, RejectedError, SpecError, UnknownNameError
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
                "the job can never start: group physics has 0 of 0 jobs in use, and this job"
                " needs 1"
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
            for ask in (
                lambda: operator.set_group("physics"),
                lambda: operator.remove_group("physics"),
                lambda: operator.set_user("olga", role="administrator"),
            ):
                with pytest.raises(DeniedError):
                    await ask()
            assert await operator.groups() == []
