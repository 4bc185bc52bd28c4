"""Reproductions in parts: the same bytes as one run, whatever ran where."""

import json
import signal
import subprocess
import sys
from pathlib import Path
from threading import Event

import psutil
import pytest

from tests.cli.command import environment, koala
from tests.harness.moments import LOOK_S, wait_until

pytestmark = [pytest.mark.long, pytest.mark.slow]

HINTS = ("reproduce", "hints", "--reps", "2", "--length", "4")
HOST_FACTS = "provenance.json"


def bytes_of(folder: Path) -> dict[str, bytes]:
    return {path.name: path.read_bytes() for path in folder.iterdir() if path.name != HOST_FACTS}


@pytest.fixture(scope="module")
def whole(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("whole")
    done = koala(*HINTS, "--no-store", "--workers", "1", "--out", str(folder))
    assert done.returncode == 0, done.stderr
    return folder


@pytest.fixture(scope="module")
def parts(tmp_path_factory: pytest.TempPathFactory) -> list[str]:
    folder = tmp_path_factory.mktemp("parts")
    made = []
    for number in (1, 2, 3):
        words = ("--part", f"{number}/3", "--workers", str(number), "--no-store")
        done = koala(*HINTS, *words, "--out", str(folder / f"p{number}"))
        assert done.returncode == 0, done.stderr
        made.append(str(folder / f"p{number}"))
    return made


def merging(*folders: str) -> list[str]:
    return [word for folder in folders for word in ("--merge", folder)]


def test_parts_merge_to_the_bytes_of_one_run(whole: Path, parts: list[str], tmp_path: Path) -> None:
    assert sorted(path.name for path in Path(parts[0]).iterdir()) == [HOST_FACTS, "runs.jsonl"]
    done = koala("reproduce", "hints", *merging(*reversed(parts)), "--out", str(tmp_path))
    assert done.returncode == 0, done.stderr
    assert bytes_of(tmp_path) == bytes_of(whole)


def test_what_does_not_fit_together_is_refused(
    whole: Path, parts: list[str], tmp_path: Path
) -> None:
    def refusal(*folders: str, words: tuple[str, ...] = (), paper: str = "hints") -> str:
        out = ("--out", str(tmp_path / "out"))
        done = koala("reproduce", paper, *merging(*folders), *words, *out)
        assert done.returncode == 2, done.stderr
        return done.stderr

    assert "runs are missing" in refusal(*parts[:2])
    assert "there are parts 1/3, 2/3" in refusal(*parts[:2])
    assert "is of the paper hints, not sq" in refusal(*parts, paper="sq")
    assert "expected folders of a part" in refusal(str(tmp_path))
    other = tmp_path / "other"
    other.mkdir()
    document = json.loads((whole / HOST_FACTS).read_text())
    (other / "runs.jsonl").write_bytes((whole / "runs.jsonl").read_bytes())
    changed = {**document, "options": {**document["options"], "seed": 7}}
    (other / HOST_FACTS).write_text(json.dumps(changed))
    assert "made with seed 7" in refusal(parts[0], str(other))
    (other / HOST_FACTS).write_text(json.dumps({**document, "code": "0" * 64}))
    assert "made by another version of Koala" in refusal(str(other))
    row = json.loads((whole / "runs.jsonl").read_text().splitlines()[0])
    row["values"]["response.all"] += 1
    (other / HOST_FACTS).write_text(json.dumps(document))
    (other / "runs.jsonl").write_text(json.dumps(row) + "\n")
    assert "differs from the same run" in refusal(str(whole), str(other))
    assert "--merge and --part cannot be combined" in refusal(*parts, words=("--part", "1/2"))
    assert "--merge and --quick cannot be combined" in refusal(*parts, words=("--quick",))


def test_each_run_is_a_line_and_the_provenance_has_the_rest(whole: Path) -> None:
    rows = [json.loads(line) for line in (whole / "runs.jsonl").read_text().splitlines()]
    document = json.loads((whole / HOST_FACTS).read_text())
    assert len(rows) == document["runs"]["wanted"] == len(document["cpu_s_by_run"])
    assert {"id", "setting", "seed", "length", "values", "saturated", "notes"} == rows[0].keys()
    assert document["options"] == {
        "paper": "hints", "effort": "quick", "figure": None, "seed": 1, "reps": 2, "length": 4.0,
    }  # fmt: skip
    command = "koala reproduce hints --quick --seed 1 --reps 2 --length 4"
    assert document["command"] == command
    assert f"`{command}`" in (whole / "report.md").read_text()
    assert document["cpu_s"] > 0
    assert {"version", "commit", "modified"} == document["koala"].keys()
    assert {"python", "libraries", "platform", "cores", "code"} <= document.keys()


END_S = 2.0
"""Promised end of a command after Ctrl-C, of processor time: machines of tests are busy."""


def test_ctrl_c_ends_within_two_seconds_and_the_next_command_goes_on(tmp_path: Path) -> None:
    store, out = tmp_path / "store", tmp_path / "out"
    words = ("reproduce", "multiqueue", "--figure", "3", "--reps", "2", "--length", "4000")
    command = [sys.executable, "-m", "koala.cli", *words, "--store", str(store), "--out", str(out)]
    with subprocess.Popen(command, env=environment(), stderr=subprocess.PIPE) as process:
        wait_until(lambda: count_lines(store) >= 5)
        workers = psutil.Process(process.pid).children(recursive=True)
        assert workers
        begin_s = last_s = cpu_s(process.pid)
        process.send_signal(signal.SIGINT)
        while process.poll() is None:
            last_s = cpu_s(process.pid) or last_s
            assert last_s - begin_s < END_S
            Event().wait(LOOK_S)
        assert process.wait(60) == 130
    assert not [one for one in workers if one.is_running()]
    stored = count_lines(store)
    document = json.loads((out / HOST_FACTS).read_text())
    assert document["interrupted"]
    assert 5 <= document["runs"]["finished"] <= stored < document["runs"]["wanted"]


def cpu_s(pid: int) -> float:
    """Processor time of a process; 0 when it has ended."""
    try:
        found = psutil.Process(pid).cpu_times()
    except psutil.Error:
        return 0.0
    return float(found.user + found.system)


def count_lines(store: Path) -> int:
    return sum(path.read_bytes().count(b"\n") for path in store.glob("*/*.jsonl"))
