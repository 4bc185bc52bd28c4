"""The host of a starter's machine reports the end of each process once."""

from __future__ import annotations

import errno
import os
import signal
import subprocess
from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any

import pytest

from koala_agent.starter import light
from koala_agent.starter.batch_rules import BatchRules
from koala_agent.starter.connection import Watch
from koala_agent.starter.events import ProcessEnded
from koala_agent.starter.exchange import kv_socket as exchange
from koala_agent.starter.exchange.kv_socket import KeyValueSocket
from koala_agent.starter.process_host import ProcessHost
from koala_agent.starter.work_meter import WorkMeter

if TYPE_CHECKING:
    pass

ENDS = 16


def test_who_has_the_number_of_a_process_that_was_measured_is_not_held() -> None:
    """The program's processes are measured once a cycle, and held many times in between."""
    program: Any = SimpleNamespace(processes=0, layout=((1,),), mains=(1,), ranks=0)
    processes: Any = SimpleNamespace(mains=(), cpu_s=0.0)
    meter = WorkMeter(program, processes)
    with sleeping() as ours, sleeping() as another:
        meter.measure()
        measured = meter._strays
        # The other one's as that of a process that ended before this one began.
        meter._strays = {
            ours.pid: measured[ours.pid],
            another.pid: measured[another.pid] - 1,
        }
        meter.pause()
        while state_of(ours.pid) != "T":
            os.sched_yield()
        assert state_of(another.pid) != "T"
        meter.resume()
        while state_of(ours.pid) == "T":
            os.sched_yield()


@contextmanager
def sleeping() -> Iterator[subprocess.Popen[bytes]]:
    with subprocess.Popen(["sleep", "1000"], start_new_session=True) as process:
        try:
            yield process
        finally:
            process.kill()


def state_of(pid: int) -> str:
    return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]


class NotBelow(light.socket.socket):
    """A socket that cannot be in a folder."""

    folder = ""

    def bind(self, address: Any) -> None:
        if address.startswith(self.folder):
            raise OSError(errno.EPERM, "no sockets here")
        super().bind(address)


def test_a_socket_that_must_be_elsewhere_leaves_nothing_there(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """On a file system without sockets it is made in /tmp."""
    temporary, state = tmp_path / "tmp", tmp_path / "state"
    temporary.mkdir()
    state.mkdir()
    monkeypatch.setattr(exchange, "TEMPORARY", str(temporary))
    monkeypatch.setattr(light.socket, "socket", NotBelow)
    monkeypatch.setattr(NotBelow, "folder", str(state))
    made = KeyValueSocket(str(state), "nonce", Watch())
    assert Path(made.path).is_socket()
    assert Path(made.path).is_relative_to(temporary)
    made.close()
    assert list(temporary.iterdir()) == []


def test_ends_that_are_signalled_together_are_told_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """Each signal told again what waited: with sixty-four it was more than fits into memory."""
    program: Any = SimpleNamespace(rules=BatchRules(), state_folder="/", mains=())
    with closing(ProcessHost(program, "nonce", Watch())) as host:
        ends = iter([[(index, 0)] for index in range(ENDS)])
        monkeypatch.setattr(host.processes, "reap", lambda: next(ends, []))
        reading, writing = os.pipe()
        os.write(writing, bytes([signal.SIGCHLD] * ENDS))
        host._signalled(reading)
        os.close(reading)
        os.close(writing)
        told = [event.index for event in host.gather() if isinstance(event, ProcessEnded)]
    assert told == list(range(ENDS))
