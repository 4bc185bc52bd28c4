"""Programs that ask for their job's members where there is none, or no answer."""

from __future__ import annotations

import json
import socket
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from koala import job

WORLD = {"number": 3, "component": 0, "components": [], "world_size": 0, "leave_by": None}


@pytest.fixture
def world(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    path = tmp_path / "world.json"
    path.write_text(json.dumps(WORLD))
    monkeypatch.setenv("KOALA_WORLD", str(path))
    monkeypatch.setenv("KOALA_KV", str(tmp_path / "kv"))
    return path


@contextmanager
def answering(path: Path, answer: bytes) -> Iterator[None]:
    """A socket that gives one answer and closes."""
    with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as listener:
        listener.bind(str(path))
        listener.listen()

        def serve() -> None:
            connection, _address = listener.accept()
            with connection:
                connection.recv(4096)
                connection.sendall(answer)

        thread = threading.Thread(target=serve)
        thread.start()
        yield
        thread.join()


@pytest.mark.parametrize(
    ("content", "words"),
    [
        ("", "Expecting value"),
        ("{}", "'components'"),
        ('{"components": [{}]}', "'component'"),
        ('{"components": [1]}', "not subscriptable"),
    ],
)
def test_a_file_that_is_none_of_ours_is_named(world: Path, content: str, words: str) -> None:
    world.write_text(content)
    with pytest.raises(job.JobError, match=r"world\.json: .*\(expected the members") as caught:
        job.world()
    assert words in str(caught.value)


def test_a_program_of_another_job_is_told_what_it_lacks(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("KOALA_WORLD", raising=False)
    with pytest.raises(job.JobError, match="expected a program of a job with malleable=yes"):
        job.is_leaving()


@pytest.mark.parametrize(
    ("answer", "words"),
    [
        (b"", "the starter of this job has ended"),
        (b"nonsense\n", "no answer of the starter"),
        (b'{"ok": false, "error": "no room (expected some)"}\n', "no room"),
    ],
)
def test_no_answer_is_an_error(world: Path, answer: bytes, words: str) -> None:
    with pytest.raises(job.JobError, match="KOALA_KV"):
        next(job.resizes())
    with answering(world.parent / "kv", answer), pytest.raises(job.JobError, match=words):
        next(job.resizes())
