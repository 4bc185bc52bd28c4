"""What tells that two attempts were alive at once sees one that is, and none that is not; what
tells that a job ran twice excuses only what nobody could know."""

import fcntl
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest

from tests.live.chaos import FENCED, unheard
from tests.live.evidence import LOG, Evidence, is_other_alive

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
    """Two processes; both attempts of them wrote that they were at their ends, at 10 and at 20."""
    lines = [
        f"{word} j1 {attempt} 0 {process} 4711 {10.0 * attempt - (word == 'start')}"
        for attempt in (1, 2)
        for word in ("start", "end")
        for process in (0, 1)
    ]
    evidence = Evidence(folder)
    (folder / LOG).write_text("\n".join([*lines, ""]), encoding="ascii")
    return evidence


def shown(at: float, text: str) -> dict[str, Any]:
    """Its story; the beginning is lost."""
    placed = "Claiming: placed on delft"
    return {"attempts": 2, "story": [(at, text), (18.0, placed), (20.1, "Finished: finished")]}


PREEMPTED = "Stopping: preempted by j2"


@pytest.mark.parametrize(
    ("at", "text"), [(9.99, PREEMPTED), (10.01, PREEMPTED), (19.0, f"Stopping: {FENCED}")]
)
def test_an_attempt_that_nobody_could_know_to_be_over_is_excused(
    tmp_path: Path, at: float, text: str
) -> None:
    evidence = ran_twice(tmp_path)
    excused = unheard(evidence, "j1", shown(at, text))
    assert evidence.finished("j1", processes=2, excused=excused) == 2


@pytest.mark.parametrize(("at", "text"), [(5.0, PREEMPTED), (11.0, PREEMPTED), (10.0, "Running")])
def test_one_that_was_over_long_before_its_stop_or_was_never_stopped_is_not(
    tmp_path: Path, at: float, text: str
) -> None:
    evidence = ran_twice(tmp_path)
    excused = unheard(evidence, "j1", shown(at, text))
    with pytest.raises(AssertionError, match="in attempts \\[1, 2\\]"):
        evidence.finished("j1", processes=2, excused=excused)
