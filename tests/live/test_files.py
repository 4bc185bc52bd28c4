"""Files that users add: from this machine to a site, into jobs, and away again."""

from __future__ import annotations

import asyncio
import json
import os
from contextlib import suppress
from pathlib import Path

import pytest

from koala.client import AsyncClient
from koala.client.uploads import LocalFile, send
from koala.errors import RejectedError, SpecError
from tests.cli.command import koala
from tests.live.grid import Grid

pytestmark = [pytest.mark.live, pytest.mark.slow]

LARGE = os.urandom(3_000_000)
HUGE_BYTES = 60_000_000
LIST = 'cd "$KOALA_INPUTS"; find * -type l | sort; cat runs/a.txt; basename "$KOALA_INPUT"'


async def test_added_files_reach_a_program_under_their_own_names(
    calm_grid: Grid, client: AsyncClient, tmp_path: Path
) -> None:
    runs = tmp_path / "runs"
    (runs / "deep").mkdir(parents=True)
    runs.joinpath("a.txt").write_text("hello\n")
    runs.joinpath("deep", "b.txt").write_text("b")
    tmp_path.joinpath("big.nc").write_bytes(LARGE)
    tmp_path.joinpath("link").symlink_to(runs / "a.txt")
    words = ["--address", calm_grid.address, "--json"]
    said = await asyncio.to_thread(koala, "files", "add", str(runs), "--site", "vu", *words)
    assert said.returncode == 0, said.stderr
    names = [entry["file"].partition("/")[2] for entry in json.loads(said.stdout)["files"]]
    assert names == ["runs/a.txt", "runs/deep/b.txt"]
    added = await client.add_file(tmp_path / "big.nc", site="delft")
    assert added.site == "delft"

    quoted = LIST.replace('"', '""')
    job = await client.submit(
        f'&(executable=/bin/sh)(arguments="-c" "{quoted}")(inputFile=big.nc runs/)'
        "(resourceManagerContact=delft)"
    )
    assert await client.wait(job.job) == "Finished", await client.show(job.job)
    out = b"".join([part.data async for part in client.logs(job.job, stream="stdout")])
    assert out.decode().split() == ["big.nc", "runs/a.txt", "runs/deep/b.txt", "hello", "big.nc"]
    moved = {copy.file.partition("/")[2] for copy in (await client.show(job.job)).transfers}
    assert moved == {"runs/a.txt", "runs/deep/b.txt"}

    with pytest.raises(RejectedError, match="exists with another content"):
        await client.add_file(runs / "a.txt", name="big.nc")
    said = await asyncio.to_thread(koala, "files", "where", "runs/", *words)
    assert [entry["sites"] for entry in json.loads(said.stdout)["files"]] == [["vu"]] * 2
    for name in ("big.nc", "runs/a.txt", "runs/deep/b.txt"):
        assert (await client.remove_file(name)).left == ()
    assert not [entry for entry in await client.files() if entry.file.startswith("~")]
    left = [path for path in calm_grid.store("vu").rglob("*") if path.name != "input.dat"]
    assert left == [], "no empty folder stays either"


async def test_an_upload_that_is_cut_goes_on_and_half_a_file_is_never_listed(
    client: AsyncClient, tmp_path: Path
) -> None:
    path = tmp_path / "cut.bin"
    path.write_bytes(b"\1" * HUGE_BYTES)
    local = await LocalFile.read(path)

    has_begun = asyncio.Event()

    def note(here: int) -> None:
        if here > HUGE_BYTES // 20:
            has_begun.set()

    with suppress(TimeoutError):
        async with asyncio.timeout(None) as limit, asyncio.TaskGroup() as group:
            group.create_task(send(client._daemon, local, note))
            await has_begun.wait()
            limit.reschedule(asyncio.get_running_loop().time())
    assert not [entry for entry in await client.files() if entry.file.endswith("cut.bin")]
    seen: list[int] = []
    async with asyncio.timeout(60):
        await client.add_file(path, site="vu", progress=seen.append)
    assert 0 < seen[0] < HUGE_BYTES // 2, "in halves: of the daemon, and of the site"
    assert seen == sorted(seen)
    assert seen[-1] == HUGE_BYTES
    await client.remove_file("cut.bin")


async def test_a_program_of_this_machine_goes_along_with_its_folder(
    calm_grid: Grid, client: AsyncClient, tmp_path: Path
) -> None:
    program, folder = tmp_path / "program", tmp_path / "lib"
    script = 'cat lib/words; cat lib/copy lib/again/deeper; echo "${KOALA_INPUT:-none}"; ls lib'
    program.write_text(f"#!/bin/sh\n{script}\n")
    program.chmod(0o755)
    folder.mkdir()
    folder.joinpath("words").write_text("from the folder\n")
    folder.joinpath("deep").mkdir()
    folder.joinpath("deep", "deeper").write_text("by a link\n")
    for link, target in (("copy", "words"), ("again", "deep"), ("deep/up", ".."), ("out", program)):
        folder.joinpath(link).symlink_to(target)
    words = ["--address", calm_grid.address, "--site", "delft", "--site", "vu"]
    staged = ["--stage", str(program), "--stage", str(folder)]
    said = await asyncio.to_thread(koala, "run", *words, *staged, "--", str(program))
    assert said.returncode == 0, said.stderr
    lines = sorted(line.partition("| ")[2] for line in said.stdout.splitlines())
    listed = ["again", "copy", "deep", "words"]
    assert lines == sorted([*["from the folder"] * 2, "by a link", "none", *listed] * 2)
    assert "stage: lib/again/up, lib/deep/up, lib/out left out: symbolic links" in said.stderr

    with pytest.raises(RejectedError, match="stages files, and this submission brings none"):
        await client.submit(f"&(executable={program})(sta_ge=yes)")
    folder.joinpath("words").unlink()
    with pytest.raises(SpecError, match="expected a file or a folder"):
        await client.submit(f"&(executable={program})(stage={tmp_path / 'none'})")
