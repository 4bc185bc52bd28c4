"""`koala rsl`: the canonical tree on standard output, errors with a caret on standard error."""

from __future__ import annotations

import json
import subprocess
import sys

from tests.cli.command import environment, koala_here


def test_the_tree_is_json_on_one_line() -> None:
    run = koala_here("rsl", "-", stdin=b'+(&(count=4)(executable=$(BIN)/x))(a!="b c" (d))')
    assert (run.returncode, run.stderr) == (0, "")
    assert json.loads(run.stdout) == {
        "bool": "+",
        "operands": [
            {
                "bool": "&",
                "operands": [
                    {"attr": "count", "op": "=", "values": ["4"]},
                    {"attr": "executable", "op": "=", "values": [{"cat": [{"var": "BIN"}, "/x"]}]},
                ],
            },
            {"attr": "a", "op": "!=", "values": ["b c", {"seq": ["d"]}]},
        ],
    }


def test_a_syntax_error_points_at_its_place() -> None:
    run = koala_here("rsl", "-", stdin=b"&(count=4)\n (executable=)")
    assert (run.returncode, run.stdout) == (2, "")
    first, source, caret = run.stderr.splitlines()
    assert first.startswith("koala rsl: standard input: line 2, column 14: ")
    assert source == " (executable=)"
    assert caret == " " * 13 + "^"


def test_a_reader_that_goes_away_ends_the_command_without_a_word() -> None:
    with subprocess.Popen(
        [sys.executable, "-m", "koala.cli", "rsl", "-"],
        env=environment(),
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
    ) as process:
        assert process.stdin is not None
        assert process.stdout is not None
        assert process.stderr is not None
        process.stdout.close()
        process.stdin.write(b"&(a=b)" + b"(a=b)" * 20_000)
        process.stdin.close()
        assert process.stderr.read() == b""
