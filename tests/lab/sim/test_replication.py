"""Runs in many processes give what they give in one, in the order of the items."""

import os
import select
import signal
import subprocess
import sys
from contextlib import ExitStack, suppress
from functools import partial
from pathlib import Path

import pytest

from koala.errors import KoalaError
from koala.lab.sim.replication import replicate
from tests.cli.command import environment
from tests.lab.sim.replicated import end_badly, fail, interrupt_parent, square, wait_for


@pytest.mark.parametrize("workers", [1, 2])
def test_results_come_in_the_order_of_the_items(workers: int) -> None:
    told: list[int] = []
    found = replicate(square, range(7), workers=workers, progress=told.append)
    assert found.results == (0, 1, 4, 9, 16, 25, 36)
    assert found.finished[3] == (3, 9)
    assert not found.is_interrupted
    assert told == [1, 2, 3, 4, 5, 6, 7]


@pytest.mark.parametrize("workers", [1, 2])
def test_an_error_of_a_run_is_raised_here(workers: int) -> None:
    with pytest.raises(ValueError, match="3"):
        replicate(fail, [3, 3], workers=workers)


def test_progress_is_told_while_no_run_ends(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Both runs wait for it."""
    monkeypatch.setattr("koala.lab.sim.replication.TOLD_EVERY_S", 0.02)
    told: list[int] = []

    def tell(done: int) -> None:
        told.append(done)
        (tmp_path / "told").touch()

    found = replicate(partial(wait_for, tmp_path / "told"), [0, 1], workers=2, progress=tell)
    assert (told[0], told[-1], found.results) == (0, 2, (0, 1))


def test_an_interrupt_keeps_what_is_finished() -> None:
    """Item 1 waits for ever and interrupts: 0 was handed out before it and is finished."""
    found = replicate(partial(interrupt_parent, os.getpid()), [0, 1, 2, 3], workers=2)
    assert found.is_interrupted
    assert 1 not in found.results
    assert len(found.results) < 4


def _gone(descriptors: list[int], limit_s: float) -> int:
    """Count those of these processes that have ended, or do so in time."""
    poll = select.poll()
    for descriptor in descriptors:
        poll.register(descriptor, select.POLLIN)
    gone = 0
    while gone < len(descriptors) and (ready := poll.poll(1_000 * limit_s)):
        for descriptor, _ in ready:
            poll.unregister(descriptor)
            gone += 1
    return gone


@pytest.mark.slow
@pytest.mark.parametrize(
    ("how", "number", "is_stopped"),
    [
        ("alone", signal.SIGTERM, False),
        ("alone", signal.SIGKILL, True),
        ("beside", signal.SIGTERM, True),
        ("beside", signal.SIGKILL, False),
        pytest.param("alone", signal.SIGTERM, True, marks=pytest.mark.long),
        pytest.param("alone", signal.SIGKILL, False, marks=pytest.mark.long),
        pytest.param("beside", signal.SIGTERM, False, marks=pytest.mark.long),
        pytest.param("beside", signal.SIGKILL, True, marks=pytest.mark.long),
    ],
)
def test_workers_end_with_the_process_that_made_them(
    how: str, number: signal.Signals, is_stopped: bool
) -> None:
    """The signal reaches that process alone; its workers compute, or are stopped."""
    with (
        subprocess.Popen(
            [
                sys.executable,
                "-c",
                f"from tests.lab.sim.replicated import play; play({how!r})",
            ],
            stdout=subprocess.PIPE,
            text=True,
            env=environment(),
        ) as process,
        ExitStack() as stack,
    ):
        stack.callback(process.kill)
        assert process.stdout is not None
        workers = [int(process.stdout.readline()) for _ in range(2)]
        descriptors = [os.pidfd_open(worker) for worker in workers]
        for descriptor in descriptors:
            stack.callback(os.close, descriptor)
            stack.callback(_kill, descriptor)
        for worker in workers if is_stopped else ():
            os.kill(worker, signal.SIGSTOP)
        process.send_signal(number)
        assert _gone(descriptors, limit_s=30.0) == 2
        assert process.wait(30.0) == -number


def _kill(descriptor: int) -> None:
    with suppress(ProcessLookupError):
        signal.pidfd_send_signal(descriptor, signal.SIGKILL)


def test_a_worker_that_is_killed_is_an_error_that_says_so() -> None:
    with pytest.raises(KoalaError, match=r"killed .* of 4 runs"):
        replicate(end_badly, [0, 1, 1, 1], workers=2)
