"""The page of two clusters, followed step by step, with emulated sites in place of Slurm.

`make test-lrm` has agents in front of real batch systems; here the words of the page are tested.
"""

from __future__ import annotations

import os
import re
import signal
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

import psutil
import pytest

from tests.cli.command import environment
from tests.cli.grids import marked_with
from tests.documents.blocks import blocks, missing
from tests.documents.pages import prepare, run_words
from tests.harness.ports import free_port
from tests.tidy.sources import ROOT

pytestmark = [pytest.mark.live, pytest.mark.long]

PAGE = ROOT / "docs" / "start" / "two-clusters.md"
SITES = ("atlas", "boreas")


class Reader:
    """Follows the page: finds a block by its first command, and types it."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.bin_folder = prepare(folder)
        self.ports = {str(number): str(free_port()) for number in (7740, 7741, 7742)}
        self.variables = environment(HOME=str(folder), XDG_CONFIG_HOME=str(folder / ".config"))
        self.variables["KOALA_RUNTIME_DIR"] = str(folder)
        self.variables["PATH"] = os.pathsep.join([str(self.bin_folder), self.variables["PATH"]])

    def block(self, opening: str) -> str:
        """Return the text of the first block that begins with these words."""
        return next(one.text for one in blocks(PAGE) if one.text.startswith(opening))

    def type(self, text: str, site: str = "atlas") -> str:
        """Run commands with the ports and the kind of site of this test; return what they print."""
        text = text.replace("atlas", site).replace("init slurm", "init emulated")
        text = text.replace("head.example.org", "127.0.0.1")
        for number, port in self.ports.items():
            text = text.replace(number, port)
        run = run_words(["bash", "-euc", text], self.folder, self.variables)
        assert run.returncode == 0, f"{text}\n{run.stdout}"
        return run.stdout


@pytest.fixture
def reader(tmp_path: Path) -> Iterator[Reader]:
    found = Reader(tmp_path)
    yield found
    for process in marked_with(str(tmp_path)):
        with suppress(psutil.NoSuchProcess):
            process.send_signal(signal.SIGTERM)
            process.wait(60)


def test_the_steps_lead_to_the_first_job(reader: Reader) -> None:
    init, start = reader.block("koala init daemon").splitlines()
    reader.type(init)
    config = reader.folder / "daemon.toml"
    text = config.read_text(encoding="utf-8").replace("0.0.0.0", "127.0.0.1")
    for number, port in reader.ports.items():
        text = text.replace(number, port)
    config.write_text(text, encoding="utf-8")
    assert "serving at" in reader.type(start)
    for site in SITES:
        reader.type(reader.block("koala init slurm"), site)
        told = reader.type(reader.block("koala site add"), site)
        join = re.search(r"^koala-agent join.*", told, re.DOTALL | re.MULTILINE)
        assert join is not None, told
        reader.type(join[0], site)
        started = reader.type(reader.block("koala-agent doctor"), site)
        assert "FAILED" not in started
        assert "registered" in started
    ran = reader.type(reader.block("koala doctor"))
    shown = [one for one in reader.block("SITE ").splitlines() if one.startswith("j1")]
    assert missing(shown, ran) == [], ran
    labels = {line.split()[0] for line in ran.splitlines() if " hello from " in line}
    assert labels == {"left.0", "left.1", "right.0", "right.1"}
    assert reader.type(reader.block("koala run")).count("| process") == 4
    for site in SITES:
        reader.type(reader.block("koala-agent stop"), site)
