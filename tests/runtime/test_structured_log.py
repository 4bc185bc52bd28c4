"""Lines of logs, and what their module imports."""

from __future__ import annotations

import json
import subprocess
import sys

PROGRAM = """
import sys
from koala.runtime.structured_log import configure_logging, get_logger
assert "rich" not in sys.modules, "structlog has imported rich"
import rich
configure_logging("info", is_lasting=False)
try:
    1 / 0
except ZeroDivisionError:
    get_logger().exception("site.broken", site="delft")
get_logger().debug("site.silent")
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
