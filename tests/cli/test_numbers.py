"""Numbers and paths that are written correctly and that nobody can mean: refused with what is
allowed, and neither a traceback nor all the memory of the machine."""

from __future__ import annotations

from pathlib import Path

import pytest

from koala.cli.main import main
from koala_agent.lrm.batch_system import find_system
from koala_agent.main import main as agent_main
from tests.lab.workload.logs import a_log, line

AGENT = find_system("emulated").template
HINTS = ("simulate", "hints", "--jobs", "20", "--reps", "1", "--workers", "1")


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (
            (*HINTS, "--preferred", "1e300"),
            "1e+300 (expected 0, or a number from 1e-12 to 1e+15, also below",
        ),
        ((*HINTS, "--rate", "1e-300"), "1e-300 (expected 0, or a number from 1e-12 to 1e+15,"),
        ((*HINTS, "--rate", "nan"), "nan (expected 0, or a number from 1e-12 to 1e+15,"),
        ((*HINTS, "--blocks", "9" * 25), "expected a number from 0 to 10000"),
        (("simulate", "hints", "--jobs", str(2**63)), "expected a number from 1 to 100000000"),
        (("simulate", "multiqueue", "--jobs", str(2**63 - 1)), "from 1 to 100000000"),
        (("simulate", "multiqueue", "--sites", "9999999x9"), "at most 10000 sites"),
        (("simulate", "multiqueue", "--utilization", "1e300"), "expected numbers such as 1,2"),
        (("simulate", "sq", "--machines", str(2**31)), "from 1 to 1000"),
        (("simulate", "sq", "--tasks", "9" * 25), "from 1 to 100000000"),
        (
            ("simulate", "workload", "das", "--utilization", "1.7e308"),
            "1.7e+308 (expected 0, or a number from 1e-12 to",
        ),
    ],
)
def test_a_number_that_nobody_can_mean(
    words: tuple[str, ...], said: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(words) == 2
    assert said in capsys.readouterr().err


@pytest.mark.parametrize("variable", ["KOALA_CREDENTIALS", "KOALA_CA"])
def test_a_variable_that_names_the_home_of_nobody(
    variable: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("KOALA_TOKEN", "koala_1_x")
    monkeypatch.setenv(variable, "~nobody-of-that-name/x")
    assert main(["list", "--address", "127.0.0.1:1"]) == 2
    assert "there is no home directory of ~nobody-of-that-name" in capsys.readouterr().err


@pytest.mark.parametrize(
    "words",
    [
        ("daemon", "/dev/zero"),
        ("up", "/dev/zero"),
        ("simulate", "trace", "/dev/zero"),
        ("simulate", "trace", "{log}", "--events", "/dev/zero"),
        ("simulate", "trace", "{log}", "--grid", "/dev/zero"),
        ("simulate", "hints", "--grid", "/dev/zero"),
    ],
)
def test_a_file_without_an_end(
    words: tuple[str, ...], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    log = a_log(tmp_path, line(1, 0, 1)).path
    assert main([word.format(log=log) for word in words]) == 2
    assert "/dev/zero" in (error := capsys.readouterr().err)
    assert "is too long (expected" in error


def test_other_files_without_an_end(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("KOALA_TOKEN", "koala_1_x")
    monkeypatch.setenv("KOALA_CA", "/dev/zero")
    assert main(["list", "--address", "127.0.0.1:1"]) == 2
    assert "'/dev/zero' (expected the daemon's authority" in capsys.readouterr().err
    config = tmp_path / "agent.toml"
    config.write_text(AGENT.read_text(encoding="utf-8"), encoding="utf-8")
    with Path("/dev/zero").open(encoding="utf-8") as endless:
        monkeypatch.setattr("sys.stdin", endless)
        assert agent_main(["join", str(config)]) != 0
    assert "this is not a join token" in capsys.readouterr().err
