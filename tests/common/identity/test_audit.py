"""The audit log keeps what matters: whoever knocks, and whatever becomes of its disk."""

from __future__ import annotations

import errno
import os
from collections.abc import Callable, Iterator
from contextlib import ExitStack, closing
from pathlib import Path

import pytest
from structlog.testing import capture_logs

from koala.daemon.auth import audit
from koala.daemon.auth.audit import FILE, UNAUTHENTICATED_FILE, Audit, record_local_operation


@pytest.fixture
def audit_of(tmp_path: Path) -> Iterator[Callable[..., Audit]]:
    """Opens audit logs of the test's folder, which are closed at its end."""
    with ExitStack() as opened:
        yield lambda **options: opened.enter_context(closing(Audit(tmp_path, **options)))


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


def test_a_full_file_is_renamed_and_whoever_renames_it_first_costs_no_line(
    audit_of: Callable[..., Audit], tmp_path: Path
) -> None:
    """logrotate needs no signal; and two processes write at a time (`koala backup`)."""
    log = audit_of(bytes_max=300)
    for number in range(4):
        write(log, number)
    assert subjects(log) == ["j0", "j1", "j2", "j3"]
    assert len((tmp_path / f"{FILE}.1").read_text().splitlines()) == 3
    (tmp_path / FILE).rename(tmp_path / "moved-by-an-operator")
    record_local_operation(tmp_path, verb="Backup", subject="here")
    write(log, 4)
    assert subjects(log)[-2:] == ["here", "j4"]
    assert (tmp_path / FILE).stat().st_mode & 0o777 == 0o600
    told = "".join(path.read_text() for path in tmp_path.iterdir())
    assert [f'"j{number}"' in told for number in range(5)] == [True] * 5


@pytest.mark.parametrize("what", ["open", "write", "replace"])
def test_a_line_that_cannot_be_written_is_in_the_daemons_log(
    audit_of: Callable[..., Audit], tmp_path: Path, monkeypatch: pytest.MonkeyPatch, what: str
) -> None:
    log = audit_of(bytes_max=1)

    def refused(*_: object) -> int:
        raise OSError(errno.ENOSPC, "no space left")

    with monkeypatch.context() as patched, capture_logs() as said:
        patched.setattr(Path if what == "replace" else os, what, refused)
        write(log, 1)
    reported = [line["object"] for line in said if line["event"] == "audit.not_written"]
    assert reported == ([] if what == "replace" else ["j1"])
    write(log, 2)
    assert subjects(log) == (["j1", "j2"] if what == "replace" else ["j2"])


def test_a_torn_line_spoils_no_other(
    audit_of: Callable[..., Audit], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    log = audit_of()
    write(log, 1)
    whole = os.write
    with monkeypatch.context() as patched:
        patched.setattr(os, "write", lambda file, text: whole(file, text[:40]))
        write(log, 2)
    write(log, 3)
    assert subjects(log) == ["j1", "j3"]
    with (tmp_path / FILE).open("ab") as file:
        file.write(b'{"at": "20')
    record_local_operation(tmp_path, verb="Backup", subject="here")
    assert subjects(log) == ["j1", "j3", "here"]


def test_strangers_push_out_only_one_another(
    audit_of: Callable[..., Audit], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    now = [1_000.0]
    for clock in ("unix_now", "now"):
        monkeypatch.setattr(audit, clock, lambda: now[0])
    log = audit_of(bytes_max=20_000)
    write(log, 1)
    for second in range(100):
        now[0] += 1.0
        told = [write(log, second, is_unauthenticated=True) for _ in range(50)]
        assert sum(told) == audit.STRANGERS_PER_S
    now[0] += 1.0
    write(log, 2)
    sizes = [path.stat().st_size for path in tmp_path.glob(f"{UNAUTHENTICATED_FILE}*")]
    assert sum(sizes) < 2 * 20_400
    lines = log.last(100_000)
    assert [line["object"] for line in (lines[0], lines[-1])] == ["j1", "j2"]
    assert [line["at"] for line in lines] == sorted(line["at"] for line in lines)
    assert "(and 40 more calls before)" in "".join(line["outcome"] for line in lines)
