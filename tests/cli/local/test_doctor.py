"""`koala doctor`: a line for each thing between a user and a first job."""

from __future__ import annotations

import asyncio
import json
import subprocess
from pathlib import Path

import pytest

from koala.common.runtime.checkup import Finding, NotableError, Result, examine, is_well
from tests.cli.command import koala
from tests.daemon.fake_agent import FakeAgent
from tests.daemon.running import config_of, running
from tests.harness.ports import free_port


async def doctor(address: str, *words: str) -> subprocess.CompletedProcess[str]:
    """Run the command while a daemon serves in this process."""
    return await asyncio.to_thread(koala, "doctor", "--address", address, *words)


def marks(run: subprocess.CompletedProcess[str]) -> dict[str, str]:
    """Read the result of each check."""
    return {line[8:].partition(":")[0]: line[:8].strip() for line in run.stdout.splitlines()}


async def test_one_check_that_fails_hides_no_other() -> None:
    shown: list[str] = []

    async def ok() -> str:
        return "fine"

    async def notable() -> str:
        raise NotableError("old; renew it")

    async def wrong() -> str:
        raise OSError(28, "No space left on device")

    findings = await examine(
        {"a": wrong, "b": notable, "c": ok}, lambda finding: shown.append(finding.line)
    )
    assert shown == [
        "FAILED  a: [Errno 28] No space left on device",
        "warning b: old; renew it",
        "ok      c: fine",
    ]
    assert not is_well(findings)
    assert is_well(findings[1:])
    assert findings[2] == Finding(check="c", result=Result.OK, text="fine")


@pytest.mark.live
async def test_all_is_well_with_a_site_and_another_version_is_a_warning(tmp_path: Path) -> None:
    async with running(config_of(tmp_path)) as daemon, asyncio.TaskGroup() as group:
        agent = FakeAgent(daemon.address)
        staying = group.create_task(agent.stay())
        await agent.until("welcome")
        run = await doctor(daemon.address)
        assert (run.returncode, run.stderr) == (0, ""), run.stdout
        found = marks(run)
        assert {found[name] for name in ("daemon", "identity", "clock", "sites", "submission")} == {
            "ok"
        }
        assert "1 of 1 usable; 8 of 8 processors are idle" in run.stdout
        assert found["versions"] == "warning"
        assert "delft test" in run.stdout
        shown = json.loads((await doctor(daemon.address, "--json")).stdout)
        assert (shown["version"], shown["is_well"]) == (1, True)
        assert [one["check"] for one in shown["checks"]] == list(found)
        assert all(set(one) == {"check", "result", "text"} for one in shown["checks"])
        staying.cancel()


async def test_without_a_daemon_only_this_machine_is_checked() -> None:
    address = f"127.0.0.1:{free_port()}"
    run = await doctor(address)
    assert (run.returncode, run.stderr) == (1, "")
    assert marks(run)["daemon"] == "FAILED"
    assert list(marks(run)) == ["daemon", "disk here"]
    assert address in run.stdout
