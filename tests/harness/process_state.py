"""Compare the process that a test leaves with the one that it was given.

All tests of a worker share one process, so what a test changes there and leaves behind decides how
later tests end, and in which worker they fail depends on luck. `left_as_it_was` fails the test that
did it. What a fixture of a wider scope makes while it is set up is for later tests, and is accepted
(`tests/conftest.py`); so is what code makes inside `shared`, because it stays by intention.
"""

from __future__ import annotations

import ctypes
import gc
import os
import re
import resource
import signal
import subprocess
import sysconfig
import threading
from collections import Counter
from collections.abc import Hashable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import TypeAlias

import pytest

INSTALLED = sysconfig.get_path("purelib")
"""Here are the files of libraries, which keep some of them open, as matplotlib does its fonts."""
NUMBERS = re.compile(r"\d+")

State: TypeAlias = dict[tuple[str, Hashable], object]
"""Everything that is compared, by its kind and its name in that kind: a value, or how many."""

PR_GET_PDEATHSIG = 2
PR_GET_CHILD_SUBREAPER = 37
PRCTL = ctypes.CDLL(None).prctl
LIMITS = {getattr(resource, name): name for name in dir(resource) if name.startswith("RLIMIT_")}
SIGNALS = tuple(signal.valid_signals() - {signal.SIGKILL, signal.SIGSTOP})
TIMERS = {signal.ITIMER_REAL: "real", signal.ITIMER_VIRTUAL: "virtual", signal.ITIMER_PROF: "prof"}
COUNTED = ("child process", "descriptor", "thread")
"""Kinds of which there may not be more than before. What a fixture of a wider scope has of them, a
test may replace, as one that kills an agent of a shared grid does, or end."""
ENDS_S = 15.0
"""Time for what is about to go by itself. Only a test that is to fail takes it."""
LOOK_S = 0.02

_given: list[State] = []
"""The state that the running test was given, and what was accepted since."""


@contextmanager
def left_as_it_was() -> Iterator[None]:
    """Fail the test whose block changes its process."""
    _given.append(state_of_process())
    try:
        yield
    finally:
        given = _given.pop()
    changes = changes_that_stay(given)
    if changes:
        pytest.fail("the test changed its process: " + "; ".join(changes), pytrace=False)


@contextmanager
def shared() -> Iterator[None]:
    """Accept what the block makes or changes: it stays for later tests."""
    if not _given:
        yield
        return
    before = state_of_process()
    yield
    after, given = state_of_process(), _given[-1]
    for key in before.keys() | after.keys():
        if before.get(key) != after.get(key):
            if key[0] in COUNTED:
                given[key] = _count(given, key) + _count(after, key) - _count(before, key)
            else:
                given[key] = after.get(key)


def state_of_process() -> State:
    """Look at all that outlasts a test; it takes a fifth of a millisecond."""
    state: State = {("folder", ""): os.getcwd()}  # noqa: PTH109 - pathlib takes twice as long
    state.update({("variable", name): value for name, value in os.environ.items()})
    state.pop(("variable", "PYTEST_CURRENT_TEST"), None)  # tells setup, call and teardown
    state.update({("limit", name): resource.getrlimit(number) for number, name in LIMITS.items()})
    state.update({("signal", number): signal.getsignal(number) for number in SIGNALS})
    state.update({("timer", name): signal.getitimer(number)[1] for number, name in TIMERS.items()})
    state["signal mask", ""] = frozenset(signal.pthread_sigmask(signal.SIG_BLOCK, ()))
    state["umask", ""] = umask = os.umask(0o077)
    os.umask(umask)
    state["accounts", ""] = (*os.getresuid(), *os.getresgid(), *os.getgroups())
    state["niceness", ""] = os.getpriority(os.PRIO_PROCESS, 0)
    state["processors", ""] = frozenset(os.sched_getaffinity(0))
    state["oom_score_adj", ""] = _read("/proc/self/oom_score_adj")
    state["subreaper", ""] = _asked(PR_GET_CHILD_SUBREAPER)
    state["signal at the parent's end", ""] = _asked(PR_GET_PDEATHSIG)
    counted = [("thread", NUMBERS.sub("N", one.name)) for one in threading.enumerate()]
    counted += [("child process", "") for _ in _children()]
    counted += [("descriptor", NUMBERS.sub("N", name)) for name in _open_files()]
    state.update(Counter(counted))
    return state


def _read(path: str) -> bytes:
    descriptor = os.open(path, os.O_RDONLY)
    try:
        return os.read(descriptor, 1 << 16)
    finally:
        os.close(descriptor)


def _asked(option: int) -> int:
    answer = ctypes.c_int()
    PRCTL(option, ctypes.byref(answer), 0, 0, 0)
    return answer.value


def _open_files() -> Iterator[str]:
    for number in os.listdir("/proc/self/fd"):  # noqa: PTH208 - pathlib takes twice as long
        with suppress(OSError):  # the descriptor of the list itself
            path = os.readlink(f"/proc/self/fd/{number}")  # noqa: PTH115
            if not path.startswith(INSTALLED):
                yield path


def _children() -> list[int]:
    """Return the child processes, also those that have ended and that nobody has waited for."""
    try:
        os.waitid(os.P_ALL, 0, os.WEXITED | os.WNOHANG | os.WNOWAIT)
    except ChildProcessError:
        return []  # quick, and nearly always so
    pids: list[int] = []
    for task in os.listdir("/proc/self/task"):  # noqa: PTH208 - see above
        with suppress(OSError):  # a thread that has ended
            pids.extend(map(int, _read(f"/proc/self/task/{task}/children").split()))
    return pids


def changes_that_stay(given: State) -> list[str]:
    """Return what is no more as it was given, once nothing is left that is about to go."""
    changed = _changed(given, state := state_of_process())
    for free in (gc.collect, _collect_all):  # what nobody refers to is not kept
        if not changed:
            return []
        free()
        changed = _changed(given, state := state_of_process())
    pause = threading.Event()
    for _ in range(round(ENDS_S / LOOK_S)):
        if not any(kind in COUNTED for kind, _ in changed):
            break
        pause.wait(LOOK_S)
        subprocess._cleanup()  # type: ignore[attr-defined]  # waits for those that nobody will
        changed = _changed(given, state := state_of_process())
    return [_say(key, given, state) for key in changed]


def _collect_all() -> None:
    """Collect garbage also where a part of it was there before the tests (`tests/conftest.py`
    freezes that). It takes a tenth of a second, and few tests need it."""
    gc.unfreeze()
    gc.collect()
    gc.freeze()


def _count(state: State, key: tuple[str, Hashable]) -> int:
    count = state.get(key, 0)
    assert isinstance(count, int)
    return count


def _changed(given: State, state: State) -> list[tuple[str, Hashable]]:
    """Return the keys of what differs."""
    if given == state:
        return []
    return [
        key
        for key in sorted(given.keys() | state.keys(), key=str)
        if given.get(key) != state.get(key)
        and (key[0] not in COUNTED or _count(state, key) > _count(given, key))
    ]


def _say(key: tuple[str, Hashable], given: State, state: State) -> str:
    kind, name = key
    what = f"{kind} {name}".rstrip()
    if kind not in COUNTED:
        return f"{what} is {state.get(key)!r} (was {given.get(key)!r})"
    if kind == "child process":
        what = f"{what} ({', '.join(map(_words_of, _children()))})"
    return f"{what} is left ({state[key]}, were {_count(given, key)})"


def _words_of(pid: int) -> str:
    with suppress(OSError):
        words = Path(f"/proc/{pid}/cmdline").read_bytes().replace(b"\0", b" ").decode().strip()
        return words or "ended, and nobody waited for it"
    return "gone"
