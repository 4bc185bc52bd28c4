"""Ask a real grid by the command line: every verb, its streams and its exit statuses."""

from __future__ import annotations

import getpass
import json
from pathlib import Path
from typing import Any

import pytest

from tests.cli.command import koala
from tests.cli.grids import Up

pytestmark = pytest.mark.live


@pytest.mark.parametrize("verb", [("drain",), ("resume",), ("sites", "lost"), ("site",)])
def test_an_unknown_site_exits_with_1_and_the_known_ones_are_named(
    grid: Up, verb: tuple[str, ...]
) -> None:
    run = grid.koala(*verb, "mars")
    assert (run.returncode, run.stdout) == (1, "")
    assert "mars" in run.stderr
    assert "delft" in run.stderr


def test_logs_are_labelled_or_those_of_one_component(grid: Up, finished: str) -> None:
    assert sorted(grid.koala("logs", finished).stdout.splitlines()) == [
        "first.0 | out two",
        "second.0 ! err",
    ]
    alone = grid.koala("logs", finished, "-c", "first", "-f")
    assert (alone.returncode, alone.stdout) == (0, "out two\n")
    (part,) = grid.koala("logs", finished, "-c", "1", "--json").stdout.splitlines()
    assert json.loads(part) == {
        "version": 1,
        "component": 1,
        "label": "second",
        "process": 0,
        "stream": "stderr",
        "text": "err\n",
    }


WRITES = """+(&(executable=/bin/sh)(arguments=-c "mkdir sub; printf one > sub/a; : > b")(label=left)
   (outputFile=sub/a b))
 (&(executable=/bin/sh)(arguments=-c "printf three > a")(outputFile=a))"""


def test_outputs_are_listed_and_fetched(grid: Up, tmp_path: Path) -> None:
    run = grid.koala("submit", "-", "--wait", stdin=WRITES.encode())
    assert run.returncode == 0, run.stderr
    job = run.stdout.strip()
    listed = {"1/a": 5, "left/b": 0, "left/sub/a": 3}
    rows = json.loads(grid.koala("outputs", job, "--json").stdout)
    assert rows["job"] == job
    assert {row["name"]: row["size_bytes"] for row in rows["files"]} == listed
    assert "left/sub/a   3 B" in grid.koala("outputs", job).stdout

    to = tmp_path / "new" / "folder"
    fetched = grid.koala("outputs", job, "--to", str(to))
    assert fetched.stdout.splitlines() == [str(to / name) for name in listed]
    assert {str(path.relative_to(to)): path.read_bytes() for path in files_below(to)} == {
        "1/a": b"three",
        "left/b": b"",
        "left/sub/a": b"one",
    }

    (to / "left" / "sub" / "a").write_bytes(b"mine")
    (to / "1" / "a").unlink()
    again = grid.koala("outputs", job, "--to", str(to))
    assert (again.returncode, again.stdout) == (1, "")
    assert f"{to / 'left' / 'b'} and 1 more: exists" in again.stderr
    assert (to / "left" / "sub" / "a").read_bytes() == b"mine"
    assert not (to / "1" / "a").exists()
    one = grid.koala("outputs", job, "--to", str(to), "-c", "left", "--force", "--json")
    paths = [row["path"] for row in json.loads(one.stdout)["files"]]
    assert paths == [str(to / "left" / "b"), str(to / "left" / "sub" / "a")]
    assert (to / "left" / "sub" / "a").read_bytes() == b"one"
    assert not (to / "1" / "a").exists()
    other = grid.koala("outputs", job, "-c", "right")
    assert (other.returncode, other.stdout) == (2, "")
    assert f"component = 'right': {job} has left, 1" in other.stderr


def files_below(folder: Path) -> list[Path]:
    return sorted(path for path in folder.rglob("*") if path.is_file())


def test_the_shell_completes_jobs_and_sites(grid: Up, finished: str) -> None:
    for words, offered in (
        (f"koala show {finished}", f"plain,{finished}"),
        ("koala site drain de", "plain,delft"),
        ("koala report --site v", "plain,vu"),
        ("koala submit jo", "file,jo"),
    ):
        run = koala(
            _KOALA_COMPLETE="bash_complete",
            COMP_WORDS=words,
            COMP_CWORD=str(words.count(" ")),
            KOALA_ADDRESS=grid.address,
        )
        assert offered in run.stdout.splitlines(), run.stderr


def test_a_list_is_narrowed_by_user_site_and_time_and_has_the_asked_columns(
    grid: Up, finished: str
) -> None:
    def listed(*words: str) -> list[str]:
        run = grid.koala("list", "--format", "{job}", *words)
        assert run.returncode == 0, run.stderr
        return run.stdout.split()

    assert finished in listed()
    assert finished in listed("--user", getpass.getuser(), "--since", "2026-01-01")
    assert finished in listed("--since", "1h")
    assert finished in listed("--since", "yesterday")
    assert listed("--since", "2999-01-01") == listed("--since", "0s") == []
    nobody = grid.koala("list", "--user", "somebody-else")
    assert (nobody.returncode, nobody.stdout) == (2, "")
    assert f"--user somebody-else is unknown (expected one of {getpass.getuser()})" in nobody.stderr
    unknown = grid.koala("list", "--site", "delf")
    assert (unknown.returncode, unknown.stdout) == (2, "")
    assert "--site delf is unknown (expected one of " in unknown.stderr
    (job,) = [j for j in json.loads(grid.koala("list", "--json").stdout)["jobs"]
              if j["job"] == finished]  # fmt: skip
    assert finished in listed("--site", job["sites"][0])
    assert job["programs"]
    assert job["submitted_at"] <= job["started_at"] <= job["ended_at"]
    table = grid.koala("list", "--format", "job,program,elapsed").stdout
    assert table.splitlines()[0].split() == ["JOB", "PROGRAM", "ELAPSED"]


def test_sites_files_and_metrics_answer_as_text_and_as_json(grid: Up) -> None:
    assert [site["site"] for site in json.loads(grid.koala("sites", "--json").stdout)["sites"]] == [
        "delft",
        "vu",
    ]
    assert grid.koala("sites").stdout.startswith("SITE ")
    for words, empty in ((("files",), "no files"), (("list", "--phase", "Delayed"), "no jobs")):
        run = grid.koala(*words)
        assert (run.returncode, run.stdout) == (0, "")
        assert run.stderr == f"koala {words[0]}: {empty}\n"
    assert json.loads(grid.koala("files", "list", "--json").stdout)["files"] == []
    assert json.loads(grid.koala("metrics", "--json").stdout)["sites"]["connected"] == 2
    assert "sites.connected" in grid.koala("metrics").stdout


@pytest.mark.parametrize("words", [("drain",), ("drain", "vu", "--all"), ("resume",)])
def test_a_drain_is_of_one_site_or_of_all(grid: Up, words: tuple[str, ...]) -> None:
    run = grid.koala(*words)
    assert run.returncode == 2
    assert "give a SITE, or --all" in run.stderr


def test_a_watch_of_a_job_goes_on_where_another_one_ended_and_ends(grid: Up, finished: str) -> None:
    def watch(*words: str) -> list[dict[str, Any]]:
        run = grid.koala("watch", "--json", "--job", finished, *words)
        assert run.returncode == 0, run.stderr
        return [json.loads(line) for line in run.stdout.splitlines()]

    everything = watch("--after", "0")
    numbers = [notice["number"] for notice in everything]
    assert numbers == sorted(set(numbers))
    assert everything[-1]["phase"] == "Finished"
    assert watch("--after", str(numbers[1])) == everything[2:]
    assert watch() == []
    unknown = grid.koala("watch", "--job", "j999")
    assert (unknown.returncode, unknown.stdout) == (1, "")
    assert "no job 'j999'" in unknown.stderr
