"""What surrounds a starter's machine: the ends of its processes, each told once."""

from __future__ import annotations

import os
import signal
from types import SimpleNamespace
from typing import Any

import pytest

from koala_agent.starter.events import ProcessEnded
from koala_agent.starter.ground import Ground
from koala_agent.starter.line import Watch

ENDS = 16


def test_ends_that_are_signalled_together_are_told_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """Each signal told again what waited: with sixty-four it was more than fits into memory."""
    program: Any = SimpleNamespace(manager="slurm", state_folder="/", mains=())
    ground = Ground(program, "nonce", Watch())
    ends = iter([[(index, 0)] for index in range(ENDS)])
    monkeypatch.setattr(ground.processes, "reap", lambda: next(ends, []))
    reading, writing = os.pipe()
    os.write(writing, bytes([signal.SIGCHLD] * ENDS))
    ground._signalled(reading)
    os.close(reading)
    os.close(writing)
    told = [event.index for event in ground.gather() if isinstance(event, ProcessEnded)]
    assert told == list(range(ENDS))
