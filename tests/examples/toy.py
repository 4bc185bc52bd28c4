"""The toy batch system, and its package as the page for authors has it."""

from __future__ import annotations

import os
import signal
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path

from tests.documents.blocks import blocks
from tests.examples.stage import EXAMPLES
from tests.harness.installation import write_installation
from tests.tidy.sources import ROOT

PAGE = ROOT / "docs" / "development" / "add-a-batch-system.md"
COMMANDS = EXAMPLES / "batch-system" / "bin"
QUEUE = "TOY_QUEUE"


def install(folder: Path, points: dict[str, str], *, name: str = "koala-toy") -> Path:
    """Write what an installation of a package leaves for Python to find; return the path to look
    in."""
    write_installation(folder, name, "0.1", "koala.batch_systems", points)
    return folder


def install_toy(folder: Path) -> Path:
    """Install the package of the page; return the path to look in."""
    for block in blocks(PAGE):
        if (name := block.marks.get("file")) is not None:
            path = folder / name
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(block.text, encoding="utf-8")
    return install(folder, {"toy": "koala_toy:SYSTEM"})


@dataclass(frozen=True, slots=True, kw_only=True)
class ToyQueue:
    """A toy queue with commands of its own, which may be spoilt."""

    commands: Path
    folder: Path

    @property
    def environment(self) -> dict[str, str]:
        """The variables of its commands."""
        path = os.pathsep.join((str(self.commands), os.environ["PATH"]))
        return {"PATH": path, QUEUE: str(self.folder)}

    def lrm(self) -> str:
        """The agent's [lrm] table."""
        pairs = ", ".join(f'{name} = "{value}"' for name, value in self.environment.items())
        keys = 'kind = "toy"\npoll_s = 0.2\ncommands_per_minute = 1200'
        return f"[lrm]\n{keys}\nenvironment = {{ {pairs} }}\n"

    def states(self) -> set[str]:
        """The states of all its jobs."""
        texts = [path.read_text(encoding="utf-8") for path in self.folder.glob("[0-9]*/state")]
        return {word for text in texts for word in text.split()[:1]}

    def replace(self, command: str, old: str, new: str) -> None:
        """Spoil a command."""
        path = self.commands / command
        text = path.read_text(encoding="utf-8")
        assert old in text
        path.write_text(text.replace(old, new), encoding="utf-8")


@contextmanager
def toy_queue(folder: Path) -> Iterator[ToyQueue]:
    """An empty queue; all that runs in it is killed at the end."""
    commands = folder / "bin"
    commands.mkdir(parents=True)
    for path in COMMANDS.iterdir():
        (commands / path.name).write_bytes(path.read_bytes())
        (commands / path.name).chmod(0o755)
    queue = ToyQueue(commands=commands, folder=folder / "queue")
    try:
        yield queue
    finally:
        mark = f"{QUEUE}={queue.folder}".encode()
        for place in Path("/proc").glob("[0-9]*/environ"):
            with suppress(OSError):
                if mark in place.read_bytes().split(b"\0"):
                    os.kill(int(place.parent.name), signal.SIGKILL)
