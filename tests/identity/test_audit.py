"""The audit log keeps what matters: whoever knocks, and whatever becomes of its disk."""

from __future__ import annotations

import errno
import os
import time
from pathlib import Path

import grpc
import pytest

from koala.daemon.auth import audit
from koala.daemon.auth.audit import FILE, STRANGERS_FILE, Audit, note
from koala.wire.v1.identity_pb2 import JoinRequest
from koala.wire.v1.identity_pb2_grpc import EnrolmentStub
from tests.identity.stage import LIMIT_S, secured


def write(log: Audit, number: int, *, is_unauthenticated: bool = False) -> bool:
    return log.write(
        who="ann",
        role="user",
        peer="p",
        verb="Cancel",
        subject=f"j{number}",
        outcome="done",
        is_unauthenticated=is_unauthenticated,
    )


def subjects(log: Audit) -> list[str]:
    return [line["object"] for line in log.last(0)]


def test_a_log_that_cannot_be_turned_over_goes_on_where_it_was(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its descriptor stays its own: no line may go into another file that gets the number."""
    tmp_path.chmod(0o700)
    log = Audit(tmp_path, bytes_max=1)

    def refused(*_: object) -> int:
        raise OSError(errno.EMFILE, "too many open files")

    with monkeypatch.context() as patched:
        patched.setattr(os, "open", refused)
        write(log, 1)
    other = os.open(tmp_path / "other", os.O_RDWR | os.O_CREAT, 0o600)
    write(log, 2)
    (tmp_path / FILE).rename(tmp_path / "moved-by-an-operator")
    write(log, 3)
    assert os.fstat(other).st_size == 0
    os.close(other)
    assert (tmp_path / FILE).exists()
    write(log, 4)
    assert subjects(log)[-1] == "j4"
    log.close()
    told = "".join(path.read_text() for path in tmp_path.iterdir())
    assert "j3" in told
    assert "j4" in told


def test_a_torn_line_spoils_no_other(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    tmp_path.chmod(0o700)
    log = Audit(tmp_path)
    write(log, 1)
    whole = os.write
    with monkeypatch.context() as patched:
        patched.setattr(os, "write", lambda file, text: whole(file, text[:40]))
        write(log, 2)
    write(log, 3)
    assert subjects(log) == ["j1", "j3"]
    with (tmp_path / FILE).open("ab") as file:
        file.write(b'{"at": "20')
    note(tmp_path, verb="Backup", subject="here")
    assert subjects(log) == ["j1", "j3", "here"]
    log.close()


def test_strangers_push_out_only_one_another(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    tmp_path.chmod(0o700)
    log = Audit(tmp_path, bytes_max=20_000)
    now = [1_000.0]
    monkeypatch.setattr(audit, "wall_s", lambda: now[0])
    write(log, 1)
    for second in range(100):
        now[0] += 1.0
        told = [write(log, second, is_unauthenticated=True) for _ in range(50)]
        assert sum(told) == audit.STRANGERS_PER_S
    now[0] += 1.0
    write(log, 2)
    sizes = [path.stat().st_size for path in tmp_path.glob(f"{STRANGERS_FILE}*")]
    assert sum(sizes) < 2 * 20_400
    lines = log.last(100_000)
    assert [line["object"] for line in (lines[0], lines[-1])] == ["j1", "j2"]
    assert [line["at"] for line in lines] == sorted(line["at"] for line in lines)
    assert "(and 40 more calls before)" in "".join(line["outcome"] for line in lines)
    log.close()


@pytest.mark.live
async def test_whoever_tries_join_tokens_fills_no_audit_log(tmp_path: Path) -> None:
    async with secured(tmp_path) as stage:
        before = len(stage.log())
        began = time.monotonic()
        async with stage.channel(None) as channel:
            stub = EnrolmentStub(channel)
            for _ in range(100):
                with pytest.raises(grpc.aio.AioRpcError):
                    await stub.Join(JoinRequest(site="delft", secret="x"), timeout=LIMIT_S)
        seconds = time.monotonic() - began
        told = stage.log(STRANGERS_FILE)
        assert 0 < len(told) <= min(100, audit.STRANGERS_PER_S * (seconds + 2))
        assert {line["verb"] for line in told} == {"Join"}
        assert len(stage.log()) == before
        async with stage.client() as administrator:
            assert "Join" in {line["verb"] for line in await administrator.audit()}
