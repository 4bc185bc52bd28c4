"""State folders as earlier releases left them (`record`), unpacked for a test."""

from __future__ import annotations

import json
import tarfile
from pathlib import Path

RECORDED = tuple(
    sorted(path.name.removesuffix(".tar.gz") for path in Path(__file__).parent.glob("*.tar.gz"))
)
SITES = {"delft": 4, "leiden": 4, "utrecht": 2}


def unpack(name: str, folder: Path) -> dict[str, str]:
    """Put the state of a recorded grid into `folder/state`; the phases of its jobs then."""
    with tarfile.open(Path(__file__).with_name(f"{name}.tar.gz")) as archive:
        archive.extractall(folder, filter="data")
    state = folder / "state"
    for path in (state, *state.rglob("*")):
        path.chmod(0o700 if path.is_dir() else 0o600)
    phases: dict[str, str] = json.loads((state / "phases.json").read_text())
    return phases
