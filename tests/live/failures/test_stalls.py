"""The program that stops processes at random."""

from __future__ import annotations

import os
import secrets
import subprocess
import sys
from collections.abc import Iterator
from random import Random

import pytest

from tests.harness.stalls import MARK, Stalls, run

pytestmark = pytest.mark.live


@pytest.fixture
def mark() -> str:
    return secrets.token_hex(8)


@pytest.fixture
def process(mark: str) -> Iterator[subprocess.Popen[bytes]]:
    with subprocess.Popen(["sleep", "1000"], env={**os.environ, MARK: mark}) as process:
        yield process
        process.kill()


def test_a_process_with_the_mark_is_stopped_and_goes_on(
    mark: str, process: subprocess.Popen[bytes]
) -> None:
    stalls = Stalls(mark=mark, rng=Random(1), share=1.0)
    stalls.step(0.0)
    assert stalls.count == 1
    _, status = os.waitpid(process.pid, os.WUNTRACED)
    assert os.WIFSTOPPED(status)
    stalls.step(0.0)
    assert stalls.count == 1, "it stands already"
    stalls.end()
    _, status = os.waitpid(process.pid, os.WCONTINUED)
    assert os.WIFCONTINUED(status)


def test_others_are_left_alone(process: subprocess.Popen[bytes]) -> None:
    stalls = Stalls(mark="another", rng=Random(1), share=1.0)
    stalls.step(0.0)
    assert stalls.count == 0


def test_the_status_is_that_of_the_command(capfd: pytest.CaptureFixture[str]) -> None:
    command = [sys.executable, "-I", "-S", "-c", "raise SystemExit(3)"]
    assert run(command, seed=7, longest_s=0.1, share=1.0) == 3
    assert "(--seed 7)" in capfd.readouterr().err
