"""Jobs on a grid of four sites, from submission to what is left of them: nothing but their results.

The programs are real processes; each says in a file when it starts and ends (tests/live/evidence).
"""

from __future__ import annotations

import hashlib
import os
from contextlib import suppress
from itertools import chain
from pathlib import Path
from typing import Any

import pytest

from koala.client import AsyncClient, AsyncJobHandle
from koala.client.records import JobDetails
from koala.errors import KoalaError, RejectedError
from tests.examples.stage import EXAMPLES
from tests.harness.moments import until
from tests.live.conftest import INPUT, INPUT_FILE, SLOW_FILE
from tests.live.grid import UMASK, Grid

pytestmark = [pytest.mark.live, pytest.mark.slow]


def shell(script: str, *, count: int = 1, site: str = "", more: str = "") -> str:
    """A component that runs a script."""
    quoted = script.replace('"', '""')
    fixed = f"(resourceManagerContact={site})" if site else ""
    return f'&(executable=/bin/sh)(arguments="-c" "{quoted}")(count={count}){fixed}{more}'


def submitted(result: AsyncJobHandle | KoalaError) -> str:
    """The job of one of many submissions."""
    assert isinstance(result, AsyncJobHandle), result
    return result.job


async def run(client: AsyncClient, rsl: str) -> JobDetails:
    """Submit, wait, and show."""
    job = (await client.submit(rsl)).job
    await client.wait(job)
    return await client.show(job)


async def output(client: AsyncClient, job: str, **chosen: Any) -> dict[tuple[int, int, str], bytes]:
    """All that a job's programs wrote: by component, process and stream."""
    found: dict[tuple[int, int, str], bytes] = {}
    async for part in client.logs(job, **chosen):
        place = (part.component, part.process, part.stream)
        found[place] = found.get(place, b"") + part.data
    return found


# --- ends -----------------------------------------------------------------------------------------


async def test_a_job_over_three_sites_starts_together_and_finishes(
    calm_grid: Grid, client: AsyncClient
) -> None:
    evidence = calm_grid.evidence
    parts = [evidence.component(site=site, count=2) for site in ("delft", "leiden", "vu")]
    shown = await run(client, evidence.job(*parts))
    assert (shown["phase"], shown["attempts"]) == ("Finished", 1), shown
    assert [part["site"] for part in shown["parts"]] == ["delft", "leiden", "vu"]
    assert [part["end"]["statuses"] for part in shown["parts"]] == [[0, 0]] * 3
    assert evidence.finished(shown["job"], processes=6) == 1


async def test_an_exit_status_fails_the_job_and_stops_the_others(
    calm_grid: Grid, client: AsyncClient
) -> None:
    evidence = calm_grid.evidence
    parts = (
        evidence.component(site="delft", gate="both", seconds=600, status=3),
        evidence.component(site="vu", seconds=600),
    )
    job = (await client.submit(evidence.job(*parts))).job
    await until(lambda: len(evidence.lines(job)) >= len(parts))  # both have begun
    evidence.open_gate("both")
    await client.wait(job)
    shown = await client.show(job)
    assert shown["phase"] == "Failed"
    assert "3" in shown["reason"]
    assert shown["status"] == 3
    assert shown["parts"][0]["end"]["statuses"] == [3]
    words = [(line.word, line.component) for line in evidence.lines(shown["job"])]
    assert ("start", 1) in words
    assert ("end", 1) not in words
    assert {site["errors"] for site in await client.sites()} == {0}


@pytest.mark.parametrize("executable", ["/nonexistent/program", "/etc/passwd", "/etc"])
async def test_a_program_that_cannot_be_executed_is_named(
    client: AsyncClient, executable: str
) -> None:
    shown = await run(client, f"&(executable={executable})(count=1)")
    assert shown["phase"] == "Failed"
    assert executable in shown["reason"], shown["reason"]
    assert {site["errors"] for site in await client.sites()} == {0}


# --- what programs write and read -----------------------------------------------------------------


async def test_the_example_with_gpus_runs_where_they_are(
    calm_grid: Grid, client: AsyncClient
) -> None:
    text = (EXAMPLES / "gpus.rsl").read_text(encoding="utf-8")
    job = (await client.submit(text)).job
    await calm_grid.phase(client, job, "Finished")
    train, feed = (await client.show(job)).parts
    assert (train.site, train.processors, train.processes) == ("delft", 4, 1)
    assert feed.site != "delft"
    assert await output(client, job, stream="stdout") == {
        (0, 0, "stdout"): b"train of gpus has 2 GPUs: 0,1\n",
        (1, 0, "stdout"): b"feed of gpus has 0 GPUs\n",
    }
    gpus = {site.site: site.gpus for site in await client.sites()}
    assert {site: count for site, count in gpus.items() if count} == {"delft": 3}
    with pytest.raises(RejectedError, match=r"component train needs 4 GPUs; .*delft has 3 GPUs"):
        await client.submit(text.replace("(gpus = 2)", "(gpus = 4)"))


async def test_outputs_are_published_from_the_job_that_finished(
    calm_grid: Grid, client: AsyncClient
) -> None:
    script = "echo $KOALA_LABEL $KOALA_SITE > result.txt; mkdir sub; echo deep > sub/more.txt"
    parts = [
        shell(script, site=site, more=f"(label={label})(outputFile=result.txt sub/more.txt)")
        for site, label in (("delft", "left"), ("utrecht", "right"))
    ]
    shown = await run(client, f"+({parts[0]})({parts[1]})")
    assert shown["phase"] == "Finished", shown
    folder = calm_grid.spool / shown["job"] / "output"
    await until((folder / "right" / "sub" / "more.txt").exists)
    await until((folder / "left" / "sub" / "more.txt").exists)
    texts = {label: (folder / label / "result.txt").read_text() for label in ("left", "right")}
    assert texts == {"left": "left delft\n", "right": "right utrecht\n"}


async def test_what_daemon_and_agent_make_is_their_own_whatever_the_umask(
    calm_grid: Grid, client: AsyncClient
) -> None:
    """While programs of users have the umask with which the agent was started."""
    script = 'umask > mask; echo out; test -n "$KOALA_INPUT"'
    more = f"(label=one)(outputFile=mask)(inputFile={INPUT_FILE})"
    shown = await run(client, shell(script, site="vu", more=more))
    assert shown["phase"] == "Finished", shown
    mask = calm_grid.spool / shown["job"] / "output" / "one" / "mask"
    await until(mask.exists)
    assert mask.read_text() == f"{UMASK:04o}\n"
    script = "echo out > named; echo out; exec sleep 600"
    job = (await client.submit(shell(script, site="vu", more="(stderr=err)"))).job
    await calm_grid.phase(client, job, "Running")
    (folder,) = (calm_grid.state / "vu" / "claims").glob(f"{job}-*")
    await until((folder / "named").exists)
    modes = {}
    vu = calm_grid.state / "vu"
    others = {claim for claim in vu.joinpath("claims").iterdir() if claim != folder}
    ours = [path for path in below(vu) if others.isdisjoint(path.parents)]
    for path in (*below(calm_grid.state / "daemon"), *ours):
        with suppress(FileNotFoundError):  # what is over is cleared away
            if not path.is_socket() and not path.is_symlink():  # a link has no mode of its own
                modes[path] = path.lstat().st_mode & 0o077
    assert {folder / ".koala" / "spec.json", folder / "stdout.0", mask.parent} <= set(modes)
    assert {folder / name for name in ("err", "named")} <= {p for p, mode in modes.items() if mode}
    wrong = {str(path): oct(mode) for path, mode in modes.items() if mode}
    assert {Path(path).name for path in wrong} <= {"err", "named", "mask"}, wrong
    await client.cancel(job)
    assert await client.wait(job) == "Cancelled"


def below(folder: Path) -> list[Path]:
    """All files and folders; those that go meanwhile may be among them or not."""
    walk = os.walk(folder)
    return [Path(parent) / name for parent, *names in walk for name in chain(*names)]


def digest(content: bytes) -> bytes:
    return hashlib.sha256(content).hexdigest().encode()


async def test_an_input_file_is_brought_whole_to_each_site(client: AsyncClient) -> None:
    script = 'sha256sum < "$KOALA_INPUT" | cut -d" " -f1'
    parts = "".join(f"({shell(script, site=site)})" for site in ("delft", "vu", "utrecht"))
    shown = await run(client, f"+(inputFile={INPUT_FILE})(inputMode=whole){parts}")
    assert shown["phase"] == "Finished", shown
    said = await output(client, shown["job"], stream="stdout")
    assert list(said.values()) == [digest(INPUT) + b"\n"] * 3
    assert shown["timeline"]["transfer_bytes"] == 2 * len(INPUT)  # delft has it


# --- cancel ---------------------------------------------------------------------------------------


async def test_a_cancelled_job_leaves_nothing_wherever_it_is(
    calm_grid: Grid, client: AsyncClient
) -> None:
    """In each phase that can be caught from outside, and at once after submission."""
    evidence = calm_grid.evidence
    rsl = evidence.job(
        evidence.component(site="delft", seconds=600, count=2),
        evidence.component(site="leiden", seconds=600, count=2),
    )
    for phase in ("", "Claiming", "Starting", "Releasing", "Running"):
        job = (await client.submit(rsl)).job
        if phase:
            await calm_grid.phase(client, job, phase)
        (answer,) = await client.cancel(job)
        assert answer["error"] == ""
        assert await client.wait(job) == "Cancelled"
        await calm_grid.nothing_left(f"{job}/")
        (again,) = await client.cancel(job)
        assert again["error"] == ""
    await calm_grid.idle(client, 4 * 8)


# --- sites ----------------------------------------------------------------------------------------


async def test_a_high_priority_job_takes_the_place_of_a_low_one_and_both_finish(
    calm_grid: Grid, client: AsyncClient
) -> None:
    """The site fills up while the file of the high one is on its way: both are submitted at once,
    so that nothing but the start of the low one has to come before the high one claims."""
    evidence = calm_grid.evidence
    rsl = evidence.job(
        evidence.component(site="leiden", count=4),
        more=f"(priority=high)(inputFile={SLOW_FILE})",
    )
    full = evidence.component(site="leiden", count=8, gate="low", seconds=600)
    high, low = [submitted(result) for result in await client.submit_many([rsl, full])]
    await calm_grid.phase(client, low, "Running")
    assert await client.wait(high) == "Finished", await client.show(high)
    assert [line for line in evidence.lines(low) if line.word == "end"] == []
    evidence.open_gate("low")
    assert await client.wait(low) == "Finished"
    assert evidence.finished(low, processes=8) > 1
    assert {site["errors"] for site in await client.sites()} == {0}


# --- members --------------------------------------------------------------------------------------


async def test_a_component_without_barrier_starts_when_it_can(
    calm_grid: Grid, client: AsyncClient
) -> None:
    """It does not wait for the one that waits for processors."""
    evidence = calm_grid.evidence
    shown = await run(
        client,
        evidence.job(
            evidence.component(site="delft", seconds=0.2),
            evidence.component(site="vu", seconds=0.01, more="(subjobStartType=no-barrier)"),
        ),
    )
    assert shown["phase"] == "Finished", shown
    assert evidence.finished(shown["job"], processes=2) == 1
