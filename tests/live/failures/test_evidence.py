"""The evidence of live tests finds two attempts alive at once, and only these; its check for jobs
that ran twice excuses only what nobody could know."""

import fcntl
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest

from koala.core.model.job import EndKind
from tests.live.chaos import unheard
from tests.live.evidence import LOG, Evidence, is_other_alive
from tests.live.faults import Account

LOOKS = 2_000


def looks(folder: Path, attempt: str) -> int:
    return sum(is_other_alive(str(folder), "j1", attempt) for _ in range(LOOKS))


def test_processes_of_one_attempt_do_not_take_each_other_for_another_one(tmp_path: Path) -> None:
    """They look at the same locks at the same time. Locks are of open files, so threads do."""
    (tmp_path / "lock.j1.1").touch()
    with ThreadPoolExecutor(4) as pool:
        assert sum(pool.map(looks, [tmp_path] * 4, ["2"] * 4)) == 0


def test_a_process_of_another_attempt_is_seen_while_it_lives(tmp_path: Path) -> None:
    with (tmp_path / "lock.j1.1").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_SH)
        assert looks(tmp_path, "2") == LOOKS
        assert not is_other_alive(str(tmp_path), "j1", "1")
        assert not is_other_alive(str(tmp_path), "j10", "1")
    assert not is_other_alive(str(tmp_path), "j1", "2")


def ran_twice(folder: Path) -> Evidence:
    """Two components of one process; both attempts of them wrote that they were at their ends, at
    10 and at 20."""
    lines = [
        f"{word} j1 {attempt} {component} 0 4711 {10.0 * attempt - (word == 'start')}"
        for attempt in (1, 2)
        for word in ("start", "end")
        for component in (0, 1)
    ]
    evidence = Evidence(folder)
    (folder / LOG).write_text("\n".join([*lines, ""]), encoding="ascii")
    return evidence


def reported(end: EndKind, ended_at: float) -> list[dict[str, Any]]:
    """Make the daemon's report of the claims: one of the first attempt did not end by itself."""
    ends = {
        "j1/1/0/1": (EndKind.EXITED, 10.0),
        "j1/1/1/2": (end, ended_at),
        "j1/2/0/1": (EndKind.EXITED, 20.0),
        "j1/2/1/1": (EndKind.EXITED, 20.0),
    }
    return [{"claim": claim, "end": end, "ended_at": at} for claim, (end, at) in ends.items()]


KILLED = Account(bereft={("j1", 1)})
STOOD_STILL = Account(stood_still={"j1/1/1/2": [(9.5, 11.0)]})


@pytest.mark.parametrize(
    ("end", "ended_at", "account"),
    [
        (EndKind.FENCED, 30.0, Account()),
        (EndKind.STOPPED, 10.01, Account()),  # the word to stop came between its line and its exit
        (EndKind.LEASE, 10.01, Account()),
        (EndKind.STOPPED, 13.0, STOOD_STILL),
        (EndKind.VANISHED, 13.0, KILLED),
    ],
)
def test_an_attempt_that_nobody_could_know_to_be_over_is_excused(
    tmp_path: Path, end: EndKind, ended_at: float, account: Account
) -> None:
    evidence = ran_twice(tmp_path)
    excused = unheard(evidence, "j1", reported(end, ended_at), account)
    assert evidence.finished("j1", processes=2, excused=excused) == 2


@pytest.mark.parametrize(
    ("end", "ended_at", "account"),
    [
        (EndKind.EXITED, 10.01, Account()),  # known, whatever was to stop it
        (EndKind.STOPPED, 13.0, Account()),
        (EndKind.LEASE, 13.0, Account()),
        (EndKind.VANISHED, 10.01, STOOD_STILL),
        (EndKind.STOPPED, 13.0, Account(stood_still={"j1/1/1/2": [(11.5, 12.0)]})),
        (EndKind.STOPPED, 13.0, Account(stood_still={"j1/1/1/2": [(8.0, 9.0)]})),
        (EndKind.STOPPED, 13.0, Account(bereft={("j1", 2), ("j2", 1)})),
    ],
)
def test_one_that_was_over_long_before_it_was_stopped_or_was_known_to_be_is_not(
    tmp_path: Path, end: EndKind, ended_at: float, account: Account
) -> None:
    evidence = ran_twice(tmp_path)
    excused = unheard(evidence, "j1", reported(end, ended_at), account)
    with pytest.raises(AssertionError, match="in attempts \\[1, 2\\]"):
        evidence.finished("j1", processes=2, excused=excused)
