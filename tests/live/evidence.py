"""Traces that the programs of live tests leave behind, and the conclusions from them.

A program is this file itself, run as a script by the interpreter alone:

    python -I -S evidence.py FOLDER GATE SECONDS [STATUS [OUTPUT]]

It appends one line at its start and, just before it exits, one at its end, with O_APPEND, so lines
of all sites stand in the order in which they were written. As long as it lives it holds a lock
named after its job and attempt, which only the kernel gives back; at its start it looks for locks
of other attempts of its job, so two attempts that are alive at once are seen whatever kills them.
It ends after SECONDS, or as soon as the file FOLDER/GATE is there. A file OUTPUT, where it runs,
names job and attempt.
"""

from __future__ import annotations

import fcntl
import os
import select
import sys
import time

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Container
    from pathlib import Path

LOG = "evidence"
LOOK_S = 0.02


def main() -> int:
    """The program. Its status is STATUS, or 7 when another attempt of its job is alive."""
    folder, gate, seconds = sys.argv[1:4]
    job, attempt = os.environ["KOALA_JOB"], os.environ["KOALA_ATTEMPT"]
    name = f"{folder}/lock.{job}.{attempt}"
    own = os.open(name, os.O_RDWR | os.O_CREAT, 0o600)
    fcntl.flock(own, fcntl.LOCK_SH)
    if is_other_alive(folder, job, attempt):
        _append(folder, "overlap")
        return 7
    _append(folder, "start")
    left_s = float(seconds)
    while left_s > 0 and not os.path.exists(f"{folder}/{gate}"):  # noqa: PTH110 - as above
        select.select([], [], [], min(LOOK_S, left_s))
        left_s -= LOOK_S
    if len(sys.argv) > 5:
        with open(sys.argv[5], "w", encoding="ascii") as file:  # noqa: PTH123 - as above
            file.write(f"{job} {attempt}\n")
    _append(folder, "end")
    return int(sys.argv[4]) if len(sys.argv) > 4 else 0


def is_other_alive(folder: str, job: str, attempt: str) -> bool:
    """True when a process of another attempt of the job holds its lock. One looks at a time: to
    look is to hold the lock for a moment, in which it is not free."""
    looking = os.open(f"{folder}/looking", os.O_RDWR | os.O_CREAT, 0o600)
    try:
        fcntl.flock(looking, fcntl.LOCK_EX)
        return any(
            not _is_free(f"{folder}/{other}")
            for other in os.listdir(folder)  # noqa: PTH208 - pathlib takes longer than all this
            if other.startswith(f"lock.{job}.") and other != f"lock.{job}.{attempt}"
        )
    finally:
        os.close(looking)


def _is_free(path: str) -> bool:
    descriptor = os.open(path, os.O_RDWR)
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    else:
        return True
    finally:
        os.close(descriptor)


def _append(folder: str, word: str) -> None:
    names = ("KOALA_JOB", "KOALA_ATTEMPT", "KOALA_COMPONENT", "KOALA_PROCESS")
    own = [os.environ[name] for name in names]
    line = " ".join([word, *own, str(os.getpid()), f"{time.time():.6f}"])
    descriptor = os.open(f"{folder}/{LOG}", os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o600)
    os.write(descriptor, f"{line}\n".encode())
    os.close(descriptor)


class Evidence:
    """The folder of a test: makes job descriptions, reads what their programs left."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        folder.mkdir(parents=True, exist_ok=True)

    def component(
        self,
        *,
        count: int = 1,
        site: str = "",
        seconds: float = 0.1,
        gate: str = "-",
        status: int = 0,
        output: str = "",
        more: str = "",
    ) -> str:
        """A component of RSL that runs the program; without an open gate it ends by itself."""
        words = ["-I", "-S", __file__, str(self.folder), gate, str(seconds), str(status)]
        if output:
            words.append(output)
            more += f"(outputFile={output})"
        arguments = " ".join(f'"{word}"' for word in words)
        fixed = f"(resourceManagerContact={site})" if site else ""
        return (
            f'&(executable="{sys.executable}")(arguments={arguments})(count={count}){fixed}{more}'
        )

    def job(self, *components: str, more: str = "") -> str:
        """A multi-request of components; `more` are job-wide relations."""
        return f"+{more}" + "".join(f"({component})" for component in components)

    def open_gate(self, gate: str) -> None:
        """Let the programs that wait for this end."""
        (self.folder / gate).touch()

    def lines(self, job: str = "") -> list[Line]:
        """Return what was written, in order."""
        try:
            text = (self.folder / LOG).read_text(encoding="ascii")
        except FileNotFoundError:
            return []
        return [line for line in map(Line, text.splitlines()) if job in ("", line.job)]

    def check(self) -> None:
        """Check what no kill of any part may bring about."""
        lines = self.lines()
        overlaps = [str(line) for line in lines if line.word == "overlap"]
        assert overlaps == [], f"two attempts were alive at once: {overlaps}"
        for word in ("start", "end"):
            said = [line.place for line in lines if line.word == word]
            doubles = sorted({place for place in said if said.count(place) > 1})
            assert doubles == [], f"{word} more than once: {doubles}"

    def whole(self, job: str, processes: int) -> list[int]:
        """The attempts in which each process of a job ended."""
        ended = [line.attempt for line in self.lines(job) if line.word == "end"]
        return [number for number in sorted(set(ended)) if ended.count(number) == processes]

    def over_at(self, job: str, attempt: int, component: int) -> float:
        """Return when the last process of a component wrote in an attempt that it was at its end,
        in seconds since 1970; minus infinity when none did."""
        ends = [line for line in self.lines(job) if line.word == "end"]
        at = [x.at for x in ends if (x.attempt, x.component) == (attempt, component)]
        return max(at, default=float("-inf"))

    def finished(self, job: str, *, processes: int, excused: Container[int] = ()) -> int:
        """The attempt in which each process of a job ended, the last one and the only one; but for
        those attempts that are excused: they ended, and nobody could tell."""
        last = max((line.attempt for line in self.lines(job)), default=0)
        whole = self.whole(job, processes)
        told = [attempt for attempt in whole if attempt == last or attempt not in excused]
        assert len(told) == 1, f"{job} ended as a whole in attempts {told}"
        assert told == [last], f"{job} started again (attempt {last}) after it was done"
        return last


class Line:
    """One line: a word, whose it is, and when it was written (seconds since 1970)."""

    def __init__(self, text: str) -> None:
        self.text = text
        self.word, self.job, attempt, component, process, pid, at = text.split()
        self.attempt, self.component, self.process = int(attempt), int(component), int(process)
        self.pid = int(pid)
        self.at = float(at)

    @property
    def place(self) -> str:
        """Job, attempt, component and process."""
        return f"{self.job}/{self.attempt}/{self.component}/{self.process}"

    def __str__(self) -> str:
        return self.text


if __name__ == "__main__":
    # At once: an interpreter that takes itself down can be ended by a Stop after it wrote its end.
    os._exit(main())
