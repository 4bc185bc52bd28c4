"""What tells that two attempts were alive at once sees one that is, and none that is not."""

import fcntl
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from tests.live.evidence import is_other_alive

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
