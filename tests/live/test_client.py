"""The synchronous client, and the page about it, against a grid of real processes."""

from __future__ import annotations

import os
import subprocess
import sys
from dataclasses import fields
from pathlib import Path

import pytest

from koala.client import AsyncClient, Client
from koala.client.records import JobDetails, Metrics, Record
from koala.errors import RejectedError
from tests.live.grid import Grid
from tests.live.test_jobs import shell

pytestmark = [pytest.mark.live, pytest.mark.slow]

SLEEP = "&(executable=/bin/sleep)(arguments=600)"


def python(client: AsyncClient, folder: Path, *words: str) -> subprocess.CompletedProcess[str]:
    """Run a Python program that finds the grid by itself."""
    return subprocess.run(
        [sys.executable, *words],
        env={**os.environ, "KOALA_ADDRESS": client.address, "GRPC_VERBOSITY": "NONE"},
        cwd=folder,
        capture_output=True,
        text=True,
        check=False,
        timeout=150,
    )


async def test_a_job_goes_its_whole_way_where_a_loop_runs_already(
    calm_grid: Grid, client: AsyncClient, tmp_path: Path
) -> None:
    """As in a notebook: this coroutine blocks its own loop meanwhile."""
    with Client(client.address) as twin:
        text = shell("echo said; echo 42 > x.txt", more="(label=sum)(outputFile=x.txt)")
        job = twin.submit(text)
        assert job.wait(timeout=60) == "Finished", job.why()
        assert "".join(part.text for part in job.logs(stream="stdout")) == "said\n"
        assert [(one.name, one.size_bytes, one.path) for one in job.outputs()] == [
            ("sum/x.txt", 3, None)
        ]
        (file,) = job.outputs(tmp_path / "to")
        assert file.path is not None
        assert file.path.read_text() == "42\n"
        with pytest.raises(RejectedError, match=r"x\.txt: exists; --force"):
            job.outputs(tmp_path / "to")
        assert job.outputs(tmp_path / "to", force=True) == [file]
        notices = list(job.watch(after=0))
        assert [notice.phase for notice in notices][-1] == "Finished"
        assert [notice.number for notice in notices] == sorted(n.number for n in notices)
        assert job.show().timeline.total_waiting_s is not None
        assert "ended" in str(job.why())
        assert job.cancel().error
        assert "is over" in job.cancel().error or job.cancel().phase == "Finished"


async def test_the_records_know_every_name_of_the_documents(
    calm_grid: Grid, client: AsyncClient
) -> None:
    job = await client.submit(shell("echo 1 > x", more="(label=a)(outputFile=x)"))
    await job.wait()
    report, claims = await client.report(), await client.report("claim")
    shown: list[Record] = [
        await client.hello(),
        *await client.list_jobs(last=1),
        await job.show(),
        await job.why(),
        await job.timeline(),
        await job.cancel(),
        *await client.sites(),
        *await client.files(),
        *await client.enrolments(),
        *await client.users(),
        report,
    ]
    shown += [notice async for notice in job.watch(after=0)]
    assert {type(one).__name__ for one in shown} >= {"Enrolment", "User", "ReplicaFile"}
    for record in shown:
        known = {field.name for field in fields(record)}
        assert set(record.document) <= known, f"{type(record).__name__} does not know a name"
    details = await client.show(job.job)
    for name in ("parts", "transfers", "charges"):
        for document, record in zip(details[name], getattr(details, name), strict=True):
            assert set(document) <= {field.name for field in fields(record)}
    assert set(details["timeline"]) <= {field.name for field in fields(details.timeline)}
    assert details.parts[0].end is not None
    assert set(details["parts"][0]["end"]) == {field.name for field in fields(details.parts[0].end)}
    for document, row in zip(report["rows"], report.rows, strict=True):
        assert set(document) <= {field.name for field in fields(row)}
    assert claims.claims
    assert set(claims["rows"][0]) <= {field.name for field in fields(claims.claims[0])}
    metrics = await client.metrics()
    assert isinstance(metrics, Metrics)
    assert metrics.jobs["Finished"] >= 1
    assert isinstance(details, JobDetails)
    assert {type(line).__name__ for line in await client.audit(last=1)} == {"AuditLine"}


async def test_an_open_client_does_not_hold_up_the_end_of_a_program(
    calm_grid: Grid, client: AsyncClient, tmp_path: Path
) -> None:
    code = (
        "import koala; client = koala.Client(); client.sites(); job = client.submit("
        f"'{SLEEP}'); notices = client.watch(after=0); next(notices); job.cancel()"
    )
    run = python(client, tmp_path, "-c", code)
    assert (run.returncode, run.stdout, run.stderr) == (0, "", "")


async def test_an_interrupt_ends_the_waiting(
    calm_grid: Grid, client: AsyncClient, tmp_path: Path
) -> None:
    code = (
        "import os, signal, threading, koala; client = koala.Client(); job = client.submit("
        f"'{SLEEP}')\n"
        "def stop():\n"
        "    next(n for n in job.watch(after=0) if n.phase == 'Running')\n"
        "    os.kill(os.getpid(), signal.SIGINT)\n"
        "try: threading.Thread(target=stop).start(); job.wait()\n"
        "except KeyboardInterrupt: print(job.cancel().error == '', job.wait(timeout=60))"
    )
    run = python(client, tmp_path, "-c", code)
    assert (run.returncode, run.stdout, run.stderr) == (0, "True Cancelled\n", "")
