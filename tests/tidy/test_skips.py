"""Under CI a skipped test is a failure, also when a whole module skips itself."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.tidy.sources import ROOT

SKIPPED_TEST = "import pytest\ndef test_it(): pytest.skip('no broker')\n"
SKIPPED_MODULE = "import pytest\npytest.skip('no broker', allow_module_level=True)\n"
EXPECTED_FAILURE = "import pytest\n@pytest.mark.xfail\ndef test_it(): assert False\n"


@pytest.mark.slow
@pytest.mark.parametrize(
    ("text", "ci", "passes"),
    [
        (SKIPPED_TEST, "true", False),
        (SKIPPED_MODULE, "true", False),
        (EXPECTED_FAILURE, "true", True),
        (SKIPPED_TEST, "", True),
    ],
)
def test_a_skip_fails_under_ci_alone(tmp_path: Path, text: str, ci: str, *, passes: bool) -> None:
    tmp_path.joinpath("test_example.py").write_text(text, encoding="utf-8")
    plugins = ["-p", "no:cacheprovider", "-p", "no:asyncio", "-p", "tests.conftest"]
    run = subprocess.run(
        [sys.executable, "-m", "pytest", "-q", "-c", os.devnull, *plugins, str(tmp_path)],
        cwd=tmp_path,
        env={**os.environ, "CI": ci, "PYTHONPATH": str(ROOT)},
        capture_output=True,
        text=True,
        check=False,
    )
    assert (run.returncode == 0) is passes, run.stdout + run.stderr
    if not passes:
        assert "no broker" in run.stdout
