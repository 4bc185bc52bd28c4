"""Import the tests once, and fork the workers of pytest from the process that has done so.

Without it each worker imports all tests, which takes as long as the slowest hundred of them. The
process has one thread; it makes no test, and the workers of pytest-xdist that it forks are as
others are: they collect by themselves, and find the modules imported.
"""

from __future__ import annotations

import gc
import os
import shlex
import sys
from collections.abc import Sequence
from importlib import import_module
from pathlib import Path

import pytest

from tests.harness.fork_server import serve_orders, take_sockets
from tests.harness.forked import serve_children, start_server
from tests.harness.launch import launch_words
from tests.tidy.sources import shipped_files

PROGRAM = "from tests.harness.collected import main; main()"
EXECUTES_ITS_LAST_WORD = "import sys; exec(sys.argv[-1])"


def python_with_tests(words: Sequence[str], folder: Path) -> str:
    """Return a command that works as `python -c`, in a process that has imported the tests that
    these words of pytest choose. A folder is for sockets and what pytest writes."""
    address = str(folder / f"tests-{os.getpid()}")
    start_server(address, serve_children(), PROGRAM, str(folder), *words)
    return shlex.join(launch_words(address, EXECUTES_ITS_LAST_WORD))


class ImportOnly:
    """A plugin that has pytest import modules, and make no tests of what is in them."""

    def pytest_pycollect_makeitem(self) -> list[pytest.Item]:
        """Answer for pytest: there is nothing."""
        return []


def main() -> None:
    """Import the tests, then fork one worker after the other."""
    sockets = take_sockets()
    gc.disable()
    folder, *words = sys.argv[1:]
    own = ["--collect-only", "--numprocesses=0", f"--override-ini=cache_dir={folder}/cache"]
    if pytest.main([*words, *own], plugins=[ImportOnly()]) != pytest.ExitCode.NO_TESTS_COLLECTED:
        # What cannot be imported stays half made, and workers would find no test in it: they are to
        # meet the error themselves.
        for module in [name for name in sys.modules if name.startswith("tests.")]:
            del sys.modules[module]
    for module in shipped_files():  # those that commands import late, and matplotlib with them
        if not module.endswith("__main__"):
            import_module(module)
    serve_orders(*sockets, kind="tests: worker process")
