"""A test that changes its process fails, and says what it changed."""

import os
import re
import subprocess
import sys
from pathlib import Path

from tests.tidy.sources import ROOT

LEAKS = {
    "subreaper": "ctypes.CDLL(None).prctl(36, 1, 0, 0, 0)",
    "parents_end": "ctypes.CDLL(None).prctl(1, 10, 0, 0, 0)",
    "limit": "resource.setrlimit(resource.RLIMIT_CORE, (0, 1))",
    "handler": "signal.signal(signal.SIGUSR1, print)",
    "mask": "signal.pthread_sigmask(signal.SIG_BLOCK, [signal.SIGUSR2])",
    "timer": "signal.setitimer(signal.ITIMER_REAL, 1000, 500)",
    "variable": "os.environ['LEFT'] = 'here'",
    "folder": "os.chdir('/')",
    "umask": "os.umask(0o123)",
    "niceness": "os.nice(1)",
    "killer": "open('/proc/self/oom_score_adj', 'w').write('7')",
    "processors": "os.sched_setaffinity(0, [min(os.sched_getaffinity(0))])",
    "thread": "threading.Thread(target=threading.Event().wait, name='left', daemon=True).start()",
    "descriptor": "os.dup(1)",
    "child": "subprocess.Popen.__del__ = print; subprocess.Popen(['sleep', '30'])",
    "zombie": "os.fork() or os._exit(0)",
}
SAID = {
    "subreaper": "subreaper is 1 (was 0)",
    "parents_end": "signal at the parent's end is 10 (was 0)",
    "limit": "limit RLIMIT_CORE is (0, 1) (was",
    "handler": "signal 10 is <built-in function print> (was <Handlers.SIG_DFL: 0>)",
    "mask": "signal mask is frozenset({<Signals.SIGUSR2: 12>}) (was frozenset())",
    "timer": "timer real is 500.0 (was 0.0)",
    "variable": "variable LEFT is 'here' (was None)",
    "folder": "folder is '/' (was",
    "umask": "umask is 83 (was",
    "niceness": "niceness is",
    "killer": "oom_score_adj is b'7\\n' (was",
    "processors": "processors is frozenset({",
    "thread": "thread left is left (1, were 0)",
    "descriptor": "is left (2, were 1)",
    "child": "sleep 30) is left",
    "zombie": "ended, and nobody waited for it) is left",
}
if len(os.sched_getaffinity(0)) == 1:
    del LEAKS["processors"]
IMPORTS = """
import ctypes, os, resource, signal, subprocess, threading
import pytest
from tests.harness import process_state
from tests.harness.process_state import shared

"""
HONEST = """
@pytest.fixture(scope="module")
def wide():
    os.environ["WIDE"] = "yes"
    yield os.dup(1)
    del os.environ["WIDE"]

def test_asks_late_for_a_wide_fixture(request):
    request.getfixturevalue("wide")
def test_has_it_from_the_beginning(wide):
    pass
def test_replaces_a_descriptor_of_it(wide):
    os.close(wide)
    os.dup(1)
def test_shares_what_it_makes():
    with shared():
        os.dup(1)
def test_makes_what_ends_by_itself():
    threading.Timer(0.05, print).start()
    subprocess.Popen(["true"])
def test_gives_everything_back(monkeypatch):
    monkeypatch.setenv("A", "B")
    os.close(os.dup(1))
"""


def outcomes(folder: Path, text: str) -> str:
    """Return what pytest says of a module with this text."""
    path = folder / "test_leaks.py"
    path.write_text(IMPORTS + text, encoding="utf-8")
    plugins = ["no:cacheprovider", "no:asyncio", "no:xdist", "tests.conftest"]
    words = ["-q", "-c", os.devnull, *(word for name in plugins for word in ("-p", name))]
    run = subprocess.run(
        [sys.executable, "-m", "pytest", *words, str(path)],
        cwd=folder,
        env={**os.environ, "PYTHONPATH": str(ROOT)},
        capture_output=True,
        text=True,
        check=False,
    )
    return run.stdout + run.stderr


def test_each_change_fails_its_test_alone_and_is_named(tmp_path: Path) -> None:
    """A test after each of them passes: nobody pays for another's change."""
    tests = [f"def test_{name}(): {LEAKS[name]}\ndef test_{name}_after(): pass" for name in LEAKS]
    said = outcomes(tmp_path, "\n".join(["process_state.ENDS_S = 0.2", *tests]))
    blamed = re.findall(r"ERROR at teardown of test_(\w+)", said)
    assert blamed == list(LEAKS), said
    for name in LEAKS:
        assert SAID[name] in said, name
    assert f"{2 * len(LEAKS)} passed, {len(LEAKS)} errors" in said


def test_what_is_shared_or_given_back_is_no_change(tmp_path: Path) -> None:
    said = outcomes(tmp_path, HONEST)
    assert "6 passed" in said, said
    assert "error" not in said
