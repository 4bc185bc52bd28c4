"""A process of the fork server is what one by exec is: its own in all that a program can see."""

from __future__ import annotations

import asyncio
import json
import os
import select
import signal
import subprocess
import sys
from pathlib import Path

import psutil
import pytest

from tests.common.files.stage import comes_true
from tests.harness.forked import FORKS, ROOT, Process, Surroundings, start, write_launcher
from tests.harness.launch import pass_on

pytestmark = pytest.mark.live

LIMIT_S = 60.0
SLEEP = "import signal; signal.pause()"
SEEN = """
import json, os, resource, signal, sys, threading
print(json.dumps({
    "words": sys.argv,
    "mark": os.environ["MARK"],
    "has_home": "HOME" in os.environ,
    "folder": os.getcwd(),
    "umask": os.umask(0),
    "leads": os.getsid(0) == os.getpid() == os.getpgid(0),
    "threads": threading.active_count(),
    "descriptors": len(os.listdir("/proc/self/fd")),
    "int": signal.getsignal(signal.SIGINT) is signal.default_int_handler,
    "found": __import__("added").VALUE,
}))
print("told", file=sys.stderr)
raise SystemExit(int(sys.stdin.read()))
"""


@pytest.mark.parametrize("by_exec", [False, True])
@pytest.mark.parametrize(
    ("ending", "status", "said"),
    [
        ("", 0, ""),
        ("sys.exit(258)", 2, ""),
        ("sys.exit('a reason')", 1, "a reason"),
        ("raise ValueError('a bug')", 1, "ValueError: a bug"),
        ("raise KeyboardInterrupt", -signal.SIGINT, "KeyboardInterrupt"),
    ],
)
def test_a_process_ends_in_order(
    tmp_path: Path, ending: str, status: int, said: str, by_exec: bool
) -> None:
    """Its threads end, then its handlers of atexit are called, and its output is written."""
    program = f"""
import atexit, sys, threading
seen = threading.Event()
atexit.register(print, "handler", end="")
threading.Thread(target=lambda: (seen.wait(), print("thread", end=" "))).start()
threading.Timer(0.05, seen.set).start()
{ending}
"""
    out, err = tmp_path / "out", tmp_path / "err"
    with out.open("wb") as stdout, err.open("wb") as stderr:
        around = Surroundings(stdout=stdout, stderr=stderr)
        assert start(program, around=around, by_exec=by_exec).wait(LIMIT_S) == status
    assert out.read_text() == "thread handler"
    assert said in err.read_text()


@pytest.mark.parametrize("by_exec", [False, True])
def test_a_process_has_its_own_words_environment_folder_and_streams(
    tmp_path: Path, by_exec: bool
) -> None:
    streams = {name: tmp_path / name for name in ("stdin", "stdout", "stderr")}
    streams["stdin"].write_text("7")
    tmp_path.joinpath("added.py").write_text("VALUE = 3")
    path = os.pathsep.join((str(ROOT), str(ROOT / "agents"), str(tmp_path)))
    other = sleep(by_exec=by_exec)  # of its descriptors none goes to the next one
    with (
        streams["stdin"].open("rb") as stdin,
        streams["stdout"].open("wb") as stdout,
        streams["stderr"].open("wb") as stderr,
    ):
        around = Surroundings(
            stdin=stdin,
            stdout=stdout,
            stderr=stderr,
            environment={"MARK": "x", "PYTHONPATH": path},
            folder=tmp_path,
            umask=0o027,
            is_session=True,
        )
        process = start(SEEN, "a", "b c", around=around, by_exec=by_exec)
        assert process.wait(LIMIT_S) == 7
    other.kill()
    assert other.wait(LIMIT_S) == -signal.SIGKILL
    assert process.poll() == process.returncode == 7
    assert streams["stderr"].read_text() == "told\n"
    assert json.loads(streams["stdout"].read_text()) == {
        "words": ["-c", "a", "b c"],
        "mark": "x",
        "has_home": False,
        "folder": str(tmp_path),
        "umask": 0o027,
        "leads": True,
        "threads": 1,
        "descriptors": 4,  # the streams, and the folder that is listed
        "int": True,
        "found": 3,
    }


@pytest.mark.parametrize("by_exec", [False, True])
async def test_the_end_of_a_process_is_told_however_it_ends(tmp_path: Path, by_exec: bool) -> None:
    """An error is written to standard error; a signal is a negative status."""
    with tmp_path.joinpath("said").open("wb") as said:
        fails = start("1 / 0", around=Surroundings(stderr=said), by_exec=by_exec)
        assert await fails.ended() == 1
    assert "ZeroDivisionError" in tmp_path.joinpath("said").read_text()
    assert await start("", around=Surroundings(), by_exec=by_exec).ended() == 0
    sleeping = sleep(by_exec=by_exec)
    assert sleeping.poll() is None
    with pytest.raises(subprocess.TimeoutExpired):
        sleeping.wait(0.01)
    sleeping.kill()
    assert await sleeping.ended() == -signal.SIGKILL
    sleeping.terminate()  # nobody is left who could get it
    ended = sleep(by_exec=by_exec)
    ended.terminate()
    assert ended.wait(LIMIT_S) == -signal.SIGTERM


def test_what_was_forked_ends_with_the_process_that_asked_for_it(tmp_path: Path) -> None:
    """Though that is killed and says nothing to anybody."""
    told = tmp_path / "told"
    code = (
        "import sys; from tests.harness.forked import Surroundings, start\n"
        f"process = start({SLEEP!r}, around=Surroundings())\n"
        "open(sys.argv[1], 'w').write(f'{process.pid}\\n'); sys.stdin.read()"
    )
    path = os.pathsep.join((str(ROOT), str(ROOT / "agents")))
    with subprocess.Popen(
        [sys.executable, "-c", code, told],
        stdin=subprocess.PIPE,
        env={**os.environ, "PYTHONPATH": path, FORKS: "1"},
    ) as asking:
        asyncio.run(comes_true(lambda: told.exists() and told.read_text().endswith("\n")))
        forked = psutil.Process(int(told.read_text()))
        asking.kill()
    assert psutil.wait_procs([forked], timeout=LIMIT_S)[1] == []


LAUNCHED = """
import os, signal, sys
def main():
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(9))
    print(*sys.argv[1:], os.getcwd(), oct(os.umask(0)), flush=True)
    signal.pause()
"""


def test_what_a_launcher_runs_has_its_words_and_umask_and_ends_with_it(tmp_path: Path) -> None:
    """As a command in a shell does: it gets signals, and is killed when its launcher is."""
    tmp_path.joinpath("launched.py").write_text(LAUNCHED)
    program = tmp_path / "program"
    write_launcher(program, "launched")
    path = os.pathsep.join((str(ROOT), str(ROOT / "agents"), str(tmp_path)))
    for number, status in ((signal.SIGTERM, 9), (signal.SIGKILL, -signal.SIGKILL)):
        with subprocess.Popen(
            [program, "a", "b c"],
            stdout=subprocess.PIPE,
            cwd=tmp_path,
            env={**os.environ, "PYTHONPATH": path},
            umask=0o027,
        ) as process:
            assert process.stdout is not None
            assert process.stdout.readline().decode() == f"a b c {tmp_path} 0o27\n"
            process.send_signal(number)
            assert process.wait(LIMIT_S) == status
            assert select.select([process.stdout], [], [], LIMIT_S)[0], "the program runs on"
            assert process.stdout.read() == b""


def sleep(*, by_exec: bool) -> Process:
    """Start a process that ends on a signal only."""
    return start(SLEEP, around=Surroundings(), by_exec=by_exec)


def test_a_signal_that_a_launcher_passes_on_too_late_reaches_nobody() -> None:
    """The number of a process that was reaped may be another process's."""
    process = subprocess.Popen(["true"])
    pidfd = os.pidfd_open(process.pid)
    process.wait(LIMIT_S)
    pass_on(pidfd, signal.SIGTERM, None)
    os.close(pidfd)
