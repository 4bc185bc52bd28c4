"""Folders of a local grid: its state, and the shipped examples."""

from __future__ import annotations

import shutil
import signal
import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import koala
from koala.errors import ConfigError

ENDS = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)


@dataclass(slots=True, kw_only=True)
class GridState:
    """State folder in use; a temporary one is removed at the end unless `keep` is called."""

    path: Path
    is_kept: bool

    def keep(self, say: Callable[[str], None]) -> None:
        """Keep the folder and print its path."""
        self.is_kept = True
        say(f"koala: state and logs are kept in {self.path}")


@contextmanager
def state_folder(named: Path | None, *, prefix: str) -> Iterator[GridState]:
    """Create the named folder, or a temporary one. Raises ConfigError."""
    # A signal between the creation and the `try` would leave the folder behind.
    before = signal.pthread_sigmask(signal.SIG_BLOCK, ENDS)
    place = None
    try:
        try:
            if named is None:
                place = GridState(path=Path(tempfile.mkdtemp(prefix=prefix)), is_kept=False)
            else:
                named.mkdir(parents=True, exist_ok=True, mode=0o700)
                place = GridState(path=named, is_kept=True)
        except OSError as error:
            raise ConfigError(f"the state folder cannot be made: {error}") from error
        finally:
            signal.pthread_sigmask(signal.SIG_SETMASK, before)
        yield place
    finally:
        if place is not None and not place.is_kept:
            shutil.rmtree(place.path, ignore_errors=True)


def shipped(name: str) -> Path:
    """Find a folder shipped with Koala (`examples`, `deploy`), in the package or the sources."""
    package = Path(koala.__file__).parent
    for folder in (package / "shipped" / name, package.parent / name):
        if folder.is_dir():
            return folder.resolve()
    raise ConfigError(
        f"the folder {name!r} is missing: neither {package.parent / name} nor"
        f" {package / 'shipped' / name} exists; install Koala again, or run it from its sources"
    )
