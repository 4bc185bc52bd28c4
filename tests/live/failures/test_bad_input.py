"""Bad input gets a clear error that names the value and what was allowed, and changes nothing.

What "nothing" is, is compared before and after: jobs, sites, files, and what the daemon counts.
"""

from __future__ import annotations

import asyncio
import secrets
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import grpc
import pytest

from koala.client import AsyncClient
from koala.common.identity.tls import JoinToken
from koala.common.protocol.versions import PROTOCOL
from koala.common.wire.v1 import koala_pb2, koala_pb2_grpc
from koala.errors import KoalaError, RejectedError, SpecError, UnknownJobError, UnknownSiteError
from koala_agent.link.enrolment import join
from tests.harness.children import program_of
from tests.harness.forked import Surroundings, start
from tests.live.grid import Grid

pytestmark = [pytest.mark.live, pytest.mark.slow]

COUNTED = ("jobs", "claims", "sites", "queues", "notices")
TRUE = "(executable=/bin/true)"
HUGE = f'(environment=(X "{"x" * 200_000}"))'


async def picture(client: AsyncClient) -> dict[str, Any]:
    """All that a client sees of the state."""
    metrics = await client.metrics()
    sites = [{**site.document, "rtt_s": None} for site in await client.sites()]
    counted = {name: metrics[name] for name in COUNTED}
    counted["queues"] = {**counted["queues"], "inbox": None}  # what agents tell of themselves comes
    counted["submitted"] = metrics["events_by_kind"].get("JobSubmitted", 0)
    return {
        "jobs": await client.list_jobs(),
        "sites": sites,
        "files": await client.files(),
        "counted": counted,
    }


@asynccontextmanager
async def nothing_changes(client: AsyncClient) -> AsyncIterator[None]:
    before = await picture(client)
    yield
    assert await picture(client) == before


@pytest.mark.parametrize(
    ("rsl", "named"),
    [
        ("", "line 1, column 1"),
        (f"+(&{TRUE}", "line 1, column"),
        (f"&{TRUE}(arguments=\"a", "line 1, column"),
        (f"&{TRUE}(count=4))", "line 1, column"),
        ("&(cuont=4)(executable=/bin/true)", "did you mean count"),
        (f"&{TRUE}(count=-1)", "-1"),
        (f"&{TRUE}(count=0)", "0"),
        (f"&{TRUE}(count=1e3)", "1e3"),
        (f"&{TRUE}(count=99999999999999999999)", "99999999999999999999"),
        (f"&{TRUE}(maxWallTime=-5)", "-5"),
        (f"&{TRUE}{HUGE}", "environment"),
        ("&(count=1)", "executable"),
        (f"&{TRUE}(executable=/bin/false)", "executable"),
        (f"|(&{TRUE})(&{TRUE})", "|"),
        (f"&{TRUE}(arguments=$(NOWHERE))", "NOWHERE"),
        (f"&{TRUE}(outputFile=../../etc/passwd)", "../../etc/passwd"),
        (f"&{TRUE}(outputFile=/etc/passwd)", "/etc/passwd"),
        (f"&{TRUE}(quorum=2)", "2"),
        (f"&{TRUE}(priority=urgent)", "high"),
        (f"&{TRUE}(environment=(KOALA_JOB j1))", "KOALA_"),
        ("&(executable=/bin/true\0)", ""),
        ("(" * 100_000, "line 1"),
        ("x" * 2_000_000, "1000000"),
    ],
    ids=lambda value: str(value)[:30].replace("\0", "NUL"),
)  # fmt: skip
async def test_a_bad_description_is_refused_by_name(
    client: AsyncClient, rsl: str, named: str
) -> None:
    async with nothing_changes(client):
        with pytest.raises(SpecError) as refused:
            await client.submit(rsl)
        assert named in str(refused.value)
        assert len(str(refused.value)) < 5_000


@pytest.mark.parametrize(
    ("rsl", "named"),
    [
        (f"&{TRUE}(count=9)", "the largest site is"),
        (f"&{TRUE}(resourceManagerContact=atlantis)", "known sites are delft, leiden"),
        (f"&{TRUE}(count=9)(resourceManagerContact=delft)", "at delft, which has 8"),
        (f"+(&{TRUE}(count=5)(resourceManagerContact=vu))(&{TRUE}(count=5)"
         "(resourceManagerContact=vu))", "the job wants 10 there"),
        (f"&{TRUE}(inputFile=nowhere.dat)", "'nowhere.dat' is not in the catalogue"),
    ],
)  # fmt: skip
async def test_what_this_grid_cannot_do_is_rejected_by_name(
    client: AsyncClient, rsl: str, named: str
) -> None:
    """The description is right, so this is no SpecError: another grid could take it."""
    async with nothing_changes(client):
        with pytest.raises(RejectedError, match=named):
            await client.submit(rsl)


async def test_one_bad_description_of_many_spoils_no_other(
    calm_grid: Grid, client: AsyncClient
) -> None:
    good = calm_grid.evidence.component(seconds=0.01)
    results = await client.submit_many([good, f"&{TRUE}(count=-1)", good])
    assert [isinstance(result, KoalaError) for result in results] == [False, True, False]
    jobs = [result.job for result in results if not isinstance(result, KoalaError)]
    assert set((await client.wait_all(jobs)).values()) == {"Finished"}


async def test_unknown_names_are_named(client: AsyncClient) -> None:
    async with nothing_changes(client):
        for verb in (client.show, client.why, client.timeline, client.wait):
            with pytest.raises(UnknownJobError, match="j99999"):
                await verb("j99999")
        (answer,) = await client.cancel("j99999")
        assert "j99999" in answer["error"]
        with pytest.raises(UnknownSiteError, match=r"atlantis.*known are delft"):
            await client.drain("atlantis")


@pytest.mark.parametrize("size_bytes", [1, 24, 5_000, 300_000])
async def test_garbage_on_the_port_disturbs_nobody(
    calm_grid: Grid, client: AsyncClient, size_bytes: int
) -> None:
    host, port = calm_grid.address.split(":")
    async with nothing_changes(client):
        for beginning in (b"", b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n", b"GET / HTTP/1.1\r\n\r\n"):
            reader, writer = await asyncio.open_connection(host, int(port))
            try:
                writer.write(beginning + secrets.token_bytes(size_bytes))
                await writer.drain()
                writer.write_eof()
                await reader.read()
            except OSError:
                continue  # that is an answer, too
            finally:
                writer.close()
        assert (await client.hello())["protocol"] == PROTOCOL


async def test_garbage_in_a_call_is_refused(calm_grid: Grid, client: AsyncClient) -> None:
    async with nothing_changes(client), calm_grid.channel() as (channel, shown):
        metadata = (("koala-protocol", str(PROTOCOL)), *shown)
        for method in ("Submit", "Cancel", "ChangeSite", "Show"):
            call: grpc.aio.UnaryUnaryMultiCallable[bytes, bytes] = channel.unary_unary(
                f"/koala.wire.v1.Koala/{method}"
            )
            with pytest.raises(grpc.aio.AioRpcError):
                await call(b"\xff" * 100, metadata=metadata, timeout=60)


@pytest.mark.parametrize("said", [(), (("koala-protocol", "999"),), (("koala-protocol", "x"),)])
async def test_a_client_of_another_protocol_is_told_both_versions(
    calm_grid: Grid, client: AsyncClient, said: tuple[tuple[str, str], ...]
) -> None:
    async with nothing_changes(client), calm_grid.channel() as (channel, shown):
        stub = koala_pb2_grpc.KoalaStub(channel)
        request = koala_pb2.SubmitRequest(submissions=[koala_pb2.Submission(rsl=f"&{TRUE}")])
        with pytest.raises(grpc.aio.AioRpcError) as refused:
            await stub.Submit(request, metadata=(*said, *shown), timeout=60)
        assert refused.value.code() is grpc.StatusCode.FAILED_PRECONDITION
        assert f"must be {PROTOCOL}" in str(refused.value.details())


async def run(
    grid: Grid, said: Path, program: str, *words: str, by_exec: bool = False
) -> tuple[int, str]:
    """Run Python to its end; return its exit status and standard error, which goes to a file."""
    with said.open("wb") as stderr:
        around = Surroundings(stderr=stderr, environment=grid.environment(), is_session=True)
        process = start(program, *words, around=around, by_exec=by_exec)
    try:
        status = await process.ended()
    finally:
        process.kill()
    return status, await asyncio.to_thread(said.read_text, encoding="utf-8")


async def test_an_agent_of_another_protocol_ends_and_says_why(
    calm_grid: Grid, client: AsyncClient, tmp_path: Path
) -> None:
    """A true agent whose protocol is another: the word is changed in its own process."""
    config = tmp_path / "agent.toml"
    config.write_text(
        f'[agent]\nsite = "stranger"\ndaemon = "{calm_grid.address}"\nstate_dir = "state"\n'
        "[site]\nprocessors = 4\n"
    )
    token = JoinToken.parse((await client.add_site("stranger"))["token"])
    await join(token, "stranger", tmp_path / "state")
    program = (
        "import koala.common.protocol.versions as v; v.PROTOCOL = 999\n"
        f"from koala_agent.main import main; raise SystemExit(main([{str(config)!r}]))"
    )
    async with nothing_changes(client):
        status, said = await run(calm_grid, tmp_path / "said", program, by_exec=True)
    await client.revoke_site("stranger")
    assert status == 1, said
    assert "protocol 999" in said
    assert f"this daemon {PROTOCOL}" in said


async def test_a_second_agent_of_a_site_does_not_take_its_place(
    calm_grid: Grid, client: AsyncClient, tmp_path: Path
) -> None:
    """Two agents with one state directory: the second ends at once."""
    async with nothing_changes(client):
        agent, config = program_of("koala_agent.__main__"), str(calm_grid.config("delft"))
        status, said = await run(calm_grid, tmp_path / "said", agent, config)
    assert status == 2, said
    assert "another agent" in said
    assert "Traceback" not in said


async def test_a_second_daemon_of_a_state_directory_ends_with_a_clear_word(
    calm_grid: Grid, client: AsyncClient, tmp_path: Path
) -> None:
    async with nothing_changes(client):
        daemon, config = program_of("koala.daemon.__main__"), str(calm_grid.config("daemon"))
        status, said = await run(calm_grid, tmp_path / "said", daemon, config)
    assert status == 1, said
    assert "another daemon" in said
    assert "Traceback" not in said
