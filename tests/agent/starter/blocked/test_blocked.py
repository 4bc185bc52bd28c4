"""Blocked processes: they wait, and become the program."""

from __future__ import annotations

import json
import os
import resource
import select
import signal
import stat
import sys
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Any

import pytest

from koala_agent.starter.blocked.process import RELEASE, start, to_order
from koala_agent.starter.process_tree import TAG
from koala_agent.starter.program import ClaimProgram
from tests.agent.site import own_claim
from tests.harness.forked import apart

pytestmark = pytest.mark.live

LIMIT_S = 60.0
A_TAG = 2**61 + 12345
SAY = (
    "import json, os, resource as r, signal as s, sys; json.dump({'cwd': os.getcwd(),"
    " 'sid': os.getsid(0) == os.getpid(), 'environment': dict(os.environ), 'words': sys.argv[1:],"
    " 'limits': [r.getrlimit(k)[0] for k in (r.RLIMIT_NOFILE, r.RLIMIT_CPU, r.RLIMIT_DATA)],"
    " 'tag': r.getrlimit(10),"
    " 'open': sorted(os.listdir('/proc/self/fd')), 'term': s.getsignal(s.SIGTERM) == s.SIG_DFL},"
    " sys.stdout)"
)


@dataclass
class Blocked:
    """A blocked process, the pipe of its orders, and that of its errors."""

    pid: int
    orders: IO[bytes]
    errors: int
    folder: Path

    def write(self, order: bytes) -> None:
        self.orders.write(order)

    def status(self) -> int:
        """Wait for its end; return its status."""
        _pid, status = os.waitpid(self.pid, 0)
        return os.waitstatus_to_exitcode(status)

    def said(self) -> str:
        return os.read(self.errors, 65_536).decode()

    def output(self) -> dict[str, Any]:
        found: dict[str, Any] = json.loads((self.folder / "stdout.0").read_text())
        return found


@contextmanager
def blocked(folder: Path, *, pipe: tuple[int, int] | None = None, **spec: Any) -> Iterator[Blocked]:
    """Start a process that waits for orders, of this pipe or one of its own."""
    given = {
        "claim": own_claim(),
        "folder": str(folder),
        "bundle": {"members": []},
        "executable": sys.executable,
        "arguments": ["-I", "-S", "-c", SAY, "a b", "ü\udcff"],
        **spec,
    }
    program = ClaimProgram(given, environment={"PATH": "/bin", "OLD": "1", TAG: str(A_TAG)})
    reading, orders = pipe or os.pipe()
    errors, errors_in = os.pipe()
    pid = start(program, program.mains[0], reading, errors_in)
    os.close(reading)
    os.close(errors_in)
    try:
        with os.fdopen(orders, "wb", buffering=0) as pipe_of_orders:
            yield Blocked(pid, pipe_of_orders, errors, folder)
    finally:
        os.close(errors)


@apart
def test_it_becomes_the_program_at_the_release(tmp_path: Path) -> None:
    """Its folder, its session, its words, its variables, its limits and its descriptors."""
    with blocked(tmp_path, cpu_time_s=99.5, memory_max_mb=512.0) as process:
        process.write(to_order({"NEW": "2", "OLD": "3"}))
        process.write(to_order({"NEW": "4", "odd name": "a=b\nc"}))
        process.write(RELEASE)
        assert process.status() == 0, process.said()
        said = process.output()
    own = {"LC_CTYPE"}  # of the interpreter
    environment = {k: v for k, v in said["environment"].items() if k not in own}
    assert environment == {
        "PWD": str(tmp_path),
        "PATH": "/bin",
        "OLD": "3",
        "NEW": "4",
        "odd name": "a=b\nc",
        "KOALA_CLAIM": own_claim(),
        "KOALA_NAME": "",
        "KOALA_GPUS": "0",
    }
    assert said["cwd"] == str(tmp_path)
    assert said["sid"]
    assert said["term"]
    assert said["words"] == ["a b", "ü\udcff"]
    assert said["limits"] == [1024, 100, 512 * 1024 * 1024]
    assert said["tag"] == [A_TAG, A_TAG]
    assert said["open"] == ["0", "1", "2", "3"]  # the last is the listing's own
    assert stat.S_IMODE((tmp_path / "stdout.0").stat().st_mode) == 0o600


@apart
def test_it_waits_as_long_as_there_is_no_release(tmp_path: Path) -> None:
    """Variables alone release nothing, not even none of them."""
    with blocked(tmp_path) as process:
        process.write(to_order({"NEW": "2"}))
        process.write(to_order({}))
        process.orders.close()
        assert process.status() == 127
        assert process.said() == ""
    assert (tmp_path / "stdout.0").read_text() == ""


@pytest.mark.parametrize("part", [RELEASE[:3], to_order({"A": "b"})[:-1], b"\x05\0\0\0"])
@apart
def test_half_an_order_releases_nothing(tmp_path: Path, part: bytes) -> None:
    with blocked(tmp_path) as process:
        process.write(part)
        process.orders.close()
        assert process.status() == 127
    assert (tmp_path / "stdout.0").read_text() == ""


@apart
def test_an_environment_of_many_bytes_arrives_whole(tmp_path: Path) -> None:
    given = {f"V{number}": "x" * 1000 for number in range(200)}
    with blocked(tmp_path) as process:
        process.write(to_order(given))
        process.write(RELEASE)
        assert process.status() == 0, process.said()
        said = process.output()["environment"]
    assert {name: said[name] for name in given} == given


@apart
def test_it_ends_with_its_starter(tmp_path: Path) -> None:
    """Even when somebody else keeps its pipe open: nobody would watch the program."""
    reading, writing = os.pipe()
    orders = os.pipe()
    starter = os.fork()
    if starter == 0:
        with blocked(tmp_path, pipe=orders) as process:
            os.write(writing, f"{process.pid}\n".encode())
            signal.pause()
    waiting = int(os.read(reading, 64))
    descriptor = os.pidfd_open(waiting)
    os.kill(starter, signal.SIGKILL)
    os.waitpid(starter, 0)
    assert select.select([descriptor], [], [], LIMIT_S)[0], "it lives without its starter"
    for each in (descriptor, *orders, reading, writing):
        os.close(each)


@pytest.mark.parametrize(
    ("spec", "what"),
    [
        ({"directory": "nowhere"}, "{folder}/nowhere: No such file or directory"),
        ({"stdin": "missing"}, "{folder}/missing: No such file or directory"),
        ({"stdout": "no/such/file"}, "{folder}/no/such/file: No such file or directory"),
        ({"executable": "/etc/passwd"}, "/etc/passwd: Permission denied"),
    ],
)
@apart
def test_what_goes_wrong_is_a_line(tmp_path: Path, spec: dict[str, Any], what: str) -> None:
    with blocked(tmp_path, **spec) as process:
        with suppress(BrokenPipeError):  # it may have ended before
            process.write(RELEASE)
        assert process.status() == 127
        assert process.said() == what.format(folder=tmp_path) + "\n"


@apart
def test_limits_stay_below_those_of_the_starter(tmp_path: Path) -> None:
    resource.setrlimit(resource.RLIMIT_CPU, (50, 60))
    with blocked(tmp_path, cpu_time_s=1000.0) as process:
        process.write(RELEASE)
        assert process.status() == 0, process.said()
    assert process.output()["limits"][1] == 60
    assert resource.getrlimit(resource.RLIMIT_CPU) == (50, 60)
