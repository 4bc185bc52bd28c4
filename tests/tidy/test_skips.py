"""Under CI a skipped test is a failure, also when a whole module skips itself."""

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

from tests.tidy.sources import ROOT

EXAMPLES = {
    "test_pytest.py": "import pytest\ndef test_it(): pytest.skip('no broker')\n",
    "test_module.py": "import pytest\npytest.skip('no broker', allow_module_level=True)\n",
    "test_expected.py": "import pytest\n@pytest.mark.xfail\ndef test_it(): assert False\n",
    "test_broker.py": "from tests.daemon.notifications.mqtt_broker import mosquitto\n"
    "def test_it(): mosquitto('/nonexistent')\n",
}
"""A test that skips itself, a module that does, a failure that is expected, a missing broker."""


def outcomes(folder: Path, *, ci: str) -> tuple[int, str]:
    """pytest's exit status and what it says, one line for each example."""
    for name, text in EXAMPLES.items():
        folder.joinpath(name).write_text(text, encoding="utf-8")
    plugins = ["-p", "no:cacheprovider", "-p", "no:asyncio", "-p", "no:xdist"]
    run = subprocess.run(
        [sys.executable, "-m", "pytest", "-q", "-rA", "-c", os.devnull, *plugins,
         "-p", "tests.conftest", "--continue-on-collection-errors", str(folder)],
        cwd=folder,
        env={**os.environ, "CI": ci, "PYTHONPATH": str(ROOT)},
        capture_output=True,
        text=True,
        check=False,
    )  # fmt: skip
    return run.returncode, run.stdout + run.stderr


@pytest.mark.slow
def test_a_skip_fails_under_ci(tmp_path: Path) -> None:
    status, said = outcomes(tmp_path, ci="true")
    assert status == 1
    assert re.findall(r"^(?:FAILED|ERROR) (\w+)\.py", said, re.MULTILINE) == [
        "test_module",
        "test_broker",
        "test_pytest",
    ], said
    assert "1 xfailed" in said
    assert "passed" not in said
    assert "mosquitto is not on PATH (Debian: apt install mosquitto)" in said


@pytest.mark.long
def test_a_skip_is_a_skip_elsewhere(tmp_path: Path) -> None:
    status, said = outcomes(tmp_path, ci="")
    assert status == 0
    assert "3 skipped, 1 xfailed" in said
    assert "Skipped for want of packages: apt install mosquitto\n" in said
