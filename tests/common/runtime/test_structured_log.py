"""Lines of logs, and what their module imports."""

from __future__ import annotations

import json
import subprocess
import sys

import pytest

PROGRAM = """
import sys
from koala.common.runtime.structured_log import configure_logging, get_logger
assert "rich" not in sys.modules, "structlog has imported rich"
import rich
configure_logging("info")
try:
    1 / 0
except ZeroDivisionError:
    get_logger().exception("site.broken", site="delft")
get_logger().debug("site.silent")
"""
LINE = """
from koala.common.runtime.structured_log import configure_logging, get_logger
configure_logging("info")
get_logger().info("job.changed", text=%a, reason=ValueError("no"), sizes=(1, 2.5, None))
"""


def test_an_error_is_one_line_of_json_with_its_traceback_and_rich_is_left_to_others() -> None:
    found = subprocess.run(
        [sys.executable, "-c", PROGRAM], check=False, capture_output=True, text=True
    )
    assert found.returncode == 0, found.stderr
    (line,) = found.stderr.splitlines()
    values = json.loads(line)
    assert (values["event"], values["site"], values["level"]) == ("site.broken", "delft", "error")
    assert values["exception"].startswith("Traceback (most recent call last):")
    assert values["exception"].endswith("ZeroDivisionError: division by zero")


@pytest.mark.parametrize("text", ["a \x1b[31m \x9b31m \u2028 ö", "half a \ud800"])
def test_a_line_is_ascii_whatever_users_wrote_so_that_none_controls_a_terminal(text: str) -> None:
    found = subprocess.run([sys.executable, "-c", LINE % text], check=False, capture_output=True)
    assert found.returncode == 0, found.stderr
    line = found.stderr.removesuffix(b"\n").decode("ascii")
    assert line.isprintable()
    values = json.loads(line)
    assert values["text"] == text
    assert (values["reason"], values["sizes"]) == ("ValueError('no')", [1, 2.5, None])
