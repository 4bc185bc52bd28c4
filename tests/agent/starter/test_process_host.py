"""The host of a starter's machine reports the end of each process once."""

from __future__ import annotations

import errno
import json
import os
import signal
import socket
import subprocess
import threading
from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any

import pytest

from koala_agent.starter import kv_socket as exchange
from koala_agent.starter import light
from koala_agent.starter.batch_rules import BatchRules
from koala_agent.starter.compat import boot_now
from koala_agent.starter.connection import JsonSocket, Watch
from koala_agent.starter.events import Disconnected, Exit, ProcessEnded, Received, Send, Woken
from koala_agent.starter.kv_socket import KeyValueSocket
from koala_agent.starter.machine_driver import MachineDriver
from koala_agent.starter.messages import PingAnswered, read
from koala_agent.starter.process_host import ProcessHost
from koala_agent.starter.work_meter import WorkMeter

if TYPE_CHECKING:
    from koala_agent.starter.events import Action, Event

ENDS = 16
LIMIT_S = 60.0


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


def test_a_file_that_is_empty_while_it_is_rewritten_takes_nothing_back(tmp_path: Path) -> None:
    program: Any = SimpleNamespace(
        processes=2,
        layout=((2,),),
        mains=(2,),
        ranks=0,
        progress_file=lambda n: str(tmp_path / str(n)),
    )
    meter = WorkMeter(program, SimpleNamespace(mains=(), cpu_s=7.0))  # type: ignore[arg-type]
    measured = meter.measure()
    assert not measured.is_told
    assert measured.work >= 7.0
    (tmp_path / "0").write_text("40")
    (tmp_path / "1").write_text("2.5")
    told = [meter.measure()]
    for spoilt in ("", "half a wor", "-1", "inf", "nan"):
        (tmp_path / "0").write_text(spoilt)
        told.append(meter.measure())
    (tmp_path / "0").unlink()
    told.append(meter.measure())
    assert {(one.work, one.is_told) for one in told} == {(42.5, True)}
    (tmp_path / "0").write_text("41")
    assert meter.measure().work == 43.5


@contextmanager
def sleeping() -> Iterator[subprocess.Popen[bytes]]:
    with subprocess.Popen(["sleep", "1000"], start_new_session=True) as process:
        try:
            yield process
        finally:
            process.kill()


def state_of(pid: int) -> str:
    return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]


def test_what_a_starter_writes_does_not_wait_for_a_pipe_that_its_program_made(
    tmp_path: Path,
) -> None:
    """The name has the starter's nonce in it, which the program knows from its environment."""
    program: Any = SimpleNamespace(
        state_folder=str(tmp_path), mains=(), layout=((),), ranks=0, processes=0
    )
    pipe = tmp_path / "end.json.nonce.new"
    os.mkfifo(pipe)
    with closing(ProcessHost(program, "nonce", Watch())) as host:
        writing = threading.Thread(target=host.write, args=("end.json", {"end": "here"}))
        writing.start()
        writing.join(LIMIT_S)
        waits = writing.is_alive()
        if waits:
            pipe.read_text()  # lets it go
    assert not waits
    assert json.loads((tmp_path / "end.json").read_text()) == {"end": "here"}
    assert list(tmp_path.iterdir()) == [tmp_path / "end.json"]


class NotBelow(light.socket.socket):
    """A socket that cannot be in a folder."""

    folder = ""

    def bind(self, address: Any) -> None:
        if address.startswith(self.folder):
            raise OSError(errno.EPERM, "no sockets here")
        super().bind(address)


def test_sockets_of_killed_starters_go_where_they_must_be_elsewhere(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """On a file system without sockets they are made in /tmp, and nobody else removes them."""
    temporary, state = tmp_path / "tmp", tmp_path / "state"
    temporary.mkdir()
    state.mkdir()
    monkeypatch.setattr(exchange, "TEMPORARY", str(temporary))
    monkeypatch.setattr(light.socket, "socket", NotBelow)
    monkeypatch.setattr(NotBelow, "folder", str(state))
    kept = {"koala-alive", "koala-young", "koala-other", "nobodys"}
    sockets = []
    for name in (*kept, "koala-left"):
        folder = temporary / name
        folder.mkdir()
        if name == "koala-other":
            (folder / "file").touch()
            continue
        made = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        made.bind(str(folder / "kv.12345678"))
        if name == "koala-alive":
            made.listen()
            sockets.append(made)
        else:
            made.close()
    for folder in temporary.iterdir():
        if folder.name != "koala-young":
            os.utime(folder, (1e9, 1e9))
    KeyValueSocket(str(state), "nonce", Watch()).close()
    assert {folder.name for folder in temporary.iterdir()} == kept
    for made in sockets:
        made.close()


class Unheard(Watch):
    """Answer through no descriptor, so that a wait for descriptors may last a minute."""

    def wait(self, _wait_s: float | None) -> None:
        raise AssertionError("waited, and had something to hear")


class Deserted:
    """A world with a line whose other end is gone, which nobody has noticed yet."""

    def __init__(self) -> None:
        self.watch: Watch = Unheard()
        self.is_over = False
        self._events: list[Event] = []
        here, there = socket.socketpair()
        there.close()
        self._wire = JsonSocket(here, self.watch, on_message=lambda _: None, on_lost=self._lose)

    def _lose(self, _reason: str) -> None:
        self._events.append(Disconnected())

    def wake_at(self) -> float:
        return boot_now() + LIMIT_S

    def gather(self) -> list[Event]:
        events, self._events = self._events, []
        return events

    def poll_processes(self) -> list[Event]:
        return []

    def carry_out(self, action: Action) -> list[Event]:
        if isinstance(action, Send):
            self._wire.send(action.message)
        self.is_over |= isinstance(action, Exit)
        return []


class Speaker:
    """A machine that says something, and ends when it hears that nobody is there."""

    wake_at = None

    def __init__(self) -> None:
        self.heard: list[Event] = []

    def handle(self, event: Event, _now: float) -> list[Action]:
        self.heard.append(event)
        return [Exit()] if isinstance(event, Disconnected) else [Send(message={"kind": "ping"})]


def test_a_line_that_is_found_lost_by_speaking_is_heard_of_at_once() -> None:
    """Else a starter whose agent was killed just then would dial the next one when its next ping is
    due, a minute later."""
    speaker = Speaker()
    MachineDriver(speaker, Deserted()).drive(Woken())
    assert speaker.heard[:2] == [Woken(), Disconnected()]


class Babel:
    """A world whose other end sends nonsense without a pause."""

    def __init__(self) -> None:
        self.watch: Watch = Unheard()
        self.is_over = False
        self._rounds = 0

    def wake_at(self) -> float:
        return 0.0

    def gather(self) -> list[Event]:
        self._rounds += 1
        assert self._rounds < 10, "what is due waits for a sensible message"
        return [Received(message={"kind": "pong"})]

    def poll_processes(self) -> list[Event]:
        return []

    def carry_out(self, action: Action) -> list[Event]:
        self.is_over |= isinstance(action, Exit)
        return []


class Leaseholder:
    """A machine with a lease that has run out when it looks at its clock again."""

    wake_at = 0.0

    def __init__(self) -> None:
        self._looks = 0

    def handle(self, event: Event, _now: float) -> list[Action]:
        if isinstance(event, Received):
            read(PingAnswered, event.message)
        self._looks += 1
        return [Exit()] if self._looks > 1 else []


def test_messages_without_sense_do_not_keep_a_lease_alive() -> None:
    MachineDriver(Leaseholder(), Babel()).drive(Woken())


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
