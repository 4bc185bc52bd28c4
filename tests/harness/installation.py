"""Installed packages without an installation."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path


def write_installation(
    folder: Path, name: str, version: str, group: str, points: Mapping[str, str]
) -> None:
    """Write what an installation leaves for Python to find: a package's entry points of a group."""
    place = folder / f"{name.replace('-', '_')}-{version}.dist-info"
    place.mkdir(parents=True)
    (place / "METADATA").write_text(
        f"Metadata-Version: 2.1\nName: {name}\nVersion: {version}\n", encoding="utf-8"
    )
    lines = "".join(f"{key} = {value}\n" for key, value in points.items())
    (place / "entry_points.txt").write_text(f"[{group}]\n{lines}", encoding="utf-8")
