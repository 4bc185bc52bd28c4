"""Hostile archives of staged files: refused at submission, or else by the first agent, for good."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path

import pytest

from koala.client import AsyncClient
from koala.daemon.files.uploads import Uploads
from koala.errors import SpecError
from tests.agent.live.agent_process import a_job, agent_process
from tests.common.files.tar_blocks import END, tar_block, tar_entry
from tests.daemon.running import config_of, running

pytestmark = [pytest.mark.live, pytest.mark.slow]

LARGE = 2**30
REFUSED = (
    "the staged archive is refused: entry 1 of the tar file: a header of 1073741824 bytes (expected"
    " 1 to 8192)"
)


def _pack_header(_files: Iterable[tuple[Path, str]], target: Path) -> None:
    """Write what says that it has a header of a gigabyte."""
    target.write_bytes(tar_block(b"header", b"L", LARGE) + b"name" + bytes(508) + END)


def _pack_program(_files: Iterable[tuple[Path, str]], target: Path) -> None:
    target.write_bytes(tar_entry(b"program", b"#!/bin/sh\nexit 0\n") + END)


@pytest.fixture
def program(tmp_path: Path) -> Path:
    path = tmp_path / "program"
    path.write_text("#!/bin/sh\nexit 0\n")
    return path


async def test_a_hostile_archive_is_refused_at_submission(
    tmp_path: Path, program: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with running(config_of(tmp_path)) as daemon, AsyncClient(daemon.address) as client:
        monkeypatch.setattr("koala.client.staging.pack", _pack_header)
        with pytest.raises(SpecError) as refused:
            await client.submit(f"&(executable={program})(stage=yes)")
        assert str(refused.value) == f"component 0: {REFUSED}"
        monkeypatch.setattr("koala.client.staging.pack", _pack_program)
        assert (await client.submit(f"&(executable={program})(stage=yes)")).job == "j1"
        assert [job["job"] for job in await client.list_jobs()] == ["j1"]


async def test_a_hostile_archive_that_comes_to_an_agent_fails_its_job_for_good(
    tmp_path: Path, program: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("koala.client.staging.pack", _pack_header)
    monkeypatch.setattr(Uploads, "problem_of_archive", lambda *_: "")
    async with (
        running(config_of(tmp_path)) as daemon,
        AsyncClient(daemon.address) as client,
        agent_process(tmp_path, daemon.address, job=a_job(), accounts='mode = "anyone"'),
    ):
        job = await client.submit(f"&(executable={program})(stage=yes)")
        assert await client.wait(job.job, timeout=60.0) == "Failed"
        shown = await client.show(job.job)
        assert shown.reason == f"component 0 at delft: unexecutable: {REFUSED}"
        (site,) = await client.sites()
        assert site["errors"] == 0
