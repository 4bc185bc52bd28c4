"""Scripts of deploy/dev: what they leave alone."""

from __future__ import annotations

import subprocess
from pathlib import Path

from tests.tidy.sources import ROOT

DEBIAN_ROOT = ROOT / "deploy" / "dev" / "debian-root.sh"


def test_a_debian_is_not_unpacked_over_other_files_or_another_debian(tmp_path: Path) -> None:
    """The script is run by root, with a folder that a person types."""
    mine = tmp_path / "mine"
    mine.mkdir()
    (mine / "thesis.tex").touch()
    older = tmp_path / "older"
    older.mkdir()
    (older / ".base").write_text("bookworm\n", encoding="utf-8")
    for folder, said in ((mine, "has other files"), (older, "has bookworm")):
        run = subprocess.run(
            [str(DEBIAN_ROOT), "trixie", str(folder), "hello"],
            env={"PATH": "/usr/bin:/bin"},  # without debootstrap, should it get that far
            capture_output=True,
            text=True,
            check=False,
        )
        assert (run.returncode, said in run.stderr) == (1, True), run.stderr
    assert (mine / "thesis.tex").exists()
