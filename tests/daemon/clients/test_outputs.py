"""A client that asks for outputs when a job has just Finished gets all, or is told to come
again."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

from koala.common.files.confined_folder import UnusableFileError
from koala.core.model.values import JobId
from koala.daemon.clients import outputs
from koala.daemon.clients.outputs import Outputs, OutputsWanted, Publisher
from koala.daemon.files.spool import AttemptComponent, EndedJob, Spool
from koala.errors import ExhaustedError

JOB = JobId("j1")
OVER = EndedJob(job=JOB, attempt=2, is_finished=True)
WANTED = OutputsWanted(job=JOB, components=None, is_names_only=False)


def spool_with(folder: Path, **files: bytes) -> Spool:
    """Make a spool with this result of the only component of the job's second attempt."""
    spool = Spool(folder)
    came = spool.outputs(AttemptComponent(job=JOB, attempt=2, component=0))
    came.mkdir(parents=True)
    for name, content in files.items():
        (came / name).write_bytes(content)
    return spool


async def read(spool: Spool, publisher: Publisher, wanted: OutputsWanted) -> dict[str, bytes]:
    found: dict[str, bytes] = {}
    async for part in Outputs(spool, publisher).read(wanted):
        found[part.name] = found.get(part.name, b"") + part.data
    return found


async def test_they_are_waited_for_until_they_are_visible(tmp_path: Path) -> None:
    content = bytes(range(256)) * 3_000
    spool = spool_with(tmp_path / "spool", a=content, b=b"")
    publisher = Publisher(spool)
    publisher.enqueue(OVER)
    async with asyncio.TaskGroup() as group:
        reading = group.create_task(read(spool, publisher, WANTED))
        await asyncio.sleep(0)
        assert not spool.published(JOB).exists()
        running = group.create_task(publisher.run())
        assert await reading == {"0/a": content, "0/b": b""}
        publisher.enqueue(OVER)  # as after a restart
        assert await read(spool, publisher, WANTED) == {"0/a": content, "0/b": b""}
        running.cancel()


async def test_what_cannot_be_published_now_is_to_be_asked_for_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(outputs, "PUBLISH_S", 0.01)
    spool = spool_with(tmp_path / "spool", a=b"1")
    publisher = Publisher(spool)
    publisher.enqueue(OVER)  # and nothing runs
    with pytest.raises(ExhaustedError, match="outputs of j1 are not published yet"):
        await read(spool, publisher, WANTED)


async def test_a_link_in_their_place_is_not_followed(tmp_path: Path) -> None:
    """A writer to the spool must not make the daemon read other files."""
    (tmp_path / "secret").write_bytes(b"secret")
    spool = spool_with(tmp_path / "spool", a=b"1")
    spool.finish(OVER)
    parts = Outputs(spool, Publisher(spool)).read(WANTED)
    assert (await anext(parts)).name == "0/a"
    visible = spool.published(JOB) / "0" / "a"
    visible.unlink()
    visible.symlink_to(tmp_path / "secret")
    with pytest.raises(UnusableFileError, match="symbolic link"):
        await anext(parts)
