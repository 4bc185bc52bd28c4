"""The tests while their processes are stopped at random, as on a machine that serves others, too.

    python -m tests.harness.stalls --seed 1 -- python -m pytest -q -n 3 tests/live

runs a command and stops a third of its processes at any time, each for up to a second: workers of
pytest, daemons, agents, starters and programs, wherever they are. A test that fails here races
something, or trusts a limit that a slow machine does not keep. What somebody else has stopped is
left alone; but whoever stops a process that stands still here already finds it going on too soon.
"""

from __future__ import annotations

import argparse
import os
import random
import secrets
import signal
import subprocess
import sys
import time
from collections.abc import Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass, field

import psutil

MARK = "KOALA_TEST_STALLS"
LOOK_S = 0.3
"""How often is looked which processes there are."""
STEP_S = 0.02


@dataclass(kw_only=True)
class Stalls:
    """Stops processes that carry a mark, and lets them go on after a while."""

    mark: str
    rng: random.Random
    longest_s: float = 1.0
    share: float = 1 / 3
    count: int = 0
    _until: dict[psutil.Process, float] = field(default_factory=dict)
    _known: list[psutil.Process] = field(default_factory=list)
    _look_at: float = 0.0

    def step(self, now: float) -> None:
        """Lets go on whose time is over, and stops at most one other."""
        for process in [process for process, until in self._until.items() if until <= now]:
            self._go_on(process)
        if now >= self._look_at:
            self._known = list(_marked(self.mark))
            self._look_at = now + LOOK_S
        free = [process for process in self._known if process not in self._until]
        if free and len(self._until) < int(self.share * len(self._known)):
            self._stop(self.rng.choice(free), now + self.rng.uniform(0.0, self.longest_s))

    def end(self) -> None:
        """All go on."""
        for process in tuple(self._until):
            self._go_on(process)

    def _stop(self, process: psutil.Process, until: float) -> None:
        with suppress(psutil.Error):
            if process.status() not in (psutil.STATUS_STOPPED, psutil.STATUS_ZOMBIE):
                process.suspend()
                self._until[process] = until
                self.count += 1

    def _go_on(self, process: psutil.Process) -> None:
        del self._until[process]
        with suppress(psutil.Error):
            process.resume()


def _marked(mark: str) -> Iterator[psutil.Process]:
    for process in psutil.process_iter():
        with suppress(psutil.Error):
            if process.environ().get(MARK) == mark:
                yield process


def run(command: Sequence[str], *, seed: int, longest_s: float, share: float) -> int:
    """The command's exit status; says how often something was stopped."""
    mark = secrets.token_hex(8)
    stalls = Stalls(mark=mark, rng=random.Random(seed), longest_s=longest_s, share=share)
    running = subprocess.Popen(command, env={**os.environ, MARK: mark})
    before = signal.signal(signal.SIGTERM, lambda *_: running.terminate())
    try:
        while True:
            with suppress(subprocess.TimeoutExpired):
                return running.wait(STEP_S)
            stalls.step(time.monotonic())
    finally:
        stalls.end()
        signal.signal(signal.SIGTERM, before)
        print(f"stopped a process {stalls.count} times (--seed {seed})", file=sys.stderr)


def main() -> int:
    """See the module."""
    parser = argparse.ArgumentParser(prog="tests.harness.stalls", description=__doc__)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--longest", type=float, default=1.0, help="seconds (1)")
    parser.add_argument("--share", type=float, default=1 / 3, help="of the processes (a third)")
    parser.add_argument("command", nargs="+")
    options = parser.parse_args()
    return run(options.command, seed=options.seed, longest_s=options.longest, share=options.share)


if __name__ == "__main__":
    sys.exit(main())
