"""Run `koala up`, and fork its daemon and agents instead of starting them with exec.

The program of `tests.harness.forked` for grids of the command line. All else is that of `koala up`:
the folders, the environment, the sessions, and how the grid ends.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import IO

import koala.cli.main
from koala.local import processes
from tests.harness.children import program_of
from tests.harness.forked import Forked, Surroundings, become_own_server


def main() -> int:
    """Run `koala` with the words of this process."""
    become_own_server()
    processes.start_child = _fork_child  # type: ignore[assignment]  # has the methods that are used
    return koala.cli.main.main()


def _fork_child(
    module: str,
    *words: str,
    log: IO[bytes],
    folder: Path,
    temporary: Path,
    environment: Mapping[str, str],
) -> Forked:
    around = Surroundings(
        stdout=log, stderr=log, environment=environment, folder=folder, is_session=True
    )
    return Forked(program_of(module), words, around)
