"""Hook of hatchling: puts the manual pages into the wheel, below share/man/man1."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

from hatchling.builders.hooks.plugin.interface import BuildHookInterface

sys.path.insert(0, str(Path(__file__).parent))  # the build runs this file by its path
from manual import manual_pages


class ManualPages(BuildHookInterface):
    """Write the pages below build/man and name them to the builder."""

    def initialize(self, version: str, build_data: dict[str, Any]) -> None:
        """Make the pages of a wheel; the source archive has docs/cli.md."""
        folder = Path(self.root, "build", "man")
        folder.mkdir(parents=True, exist_ok=True)
        document = Path(self.root, "docs", "cli.md").read_text(encoding="utf-8")
        for name, text in manual_pages(document, version=self.metadata.version).items():
            path = folder / name
            path.write_text(text, encoding="utf-8")
            build_data["shared_data"][str(path)] = f"share/man/man1/{name}"
