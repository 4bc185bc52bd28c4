"""Patterns of output files: what they match, how many, and where."""

from __future__ import annotations

from pathlib import Path

import pytest

from koala.common.protocol.messages import Program
from koala_agent.placeholders.result_files import is_matched, matched_paths
from koala_agent.starter.files.output_patterns import FILES_MAX, chosen, files_below, matches


@pytest.mark.parametrize(
    ("pattern", "name"),
    [
        ("*.csv", "a.csv"),
        ("results/*.csv", "results/a.csv"),
        ("**/*.log", "a.log"),
        ("**/*.log", "deep/er/a.log"),
        ("plots/", "plots/a/b.png"),
        ("run[0-9]/out", "run7/out"),
        ("exact", "exact"),
        ("**", "sub/stdout.0"),
    ],
)
def test_a_pattern_matches(pattern: str, name: str) -> None:
    assert matches(pattern, name)


@pytest.mark.parametrize(
    ("pattern", "name"),
    [
        ("*.csv", "results/a.csv"),
        ("results/*.csv", "results/deep/a.csv"),
        ("plots/", "plots"),
        ("*", ".koala/spec.json"),
        ("**", ".koala/spec.json"),
        ("**", "inputs/data.nc"),
        ("*", "stdout.0"),
        ("*", "placeholder.out"),
        ("*", "input"),
    ],
)
def test_a_pattern_matches_nothing_else_and_no_file_of_koala(pattern: str, name: str) -> None:
    assert not matches(pattern, name)


def test_a_name_without_wildcards_must_be_there_and_there_is_a_limit() -> None:
    assert chosen(["*.csv"], []) == ([], "")
    assert chosen(["a", "*.csv"], ["b.csv"]) == (["b.csv"], "outputs: a does not exist")
    assert chosen(["a"], [], is_all=False) == ([], "")
    names = [f"{n}.csv" for n in range(FILES_MAX + 1)]
    assert chosen(["*.csv"], names[1:])[1] == ""
    found, problem = chosen(["*.csv"], names)
    assert found == []
    assert problem == "outputs match 1001 files (expected at most 1000; an archive counts as one)"


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    folder = tmp_path / "claim"
    for name in ("results/a.csv", "results/b.csv", "results/c.txt", ".koala/spec.json", "stdout.0"):
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_text(name)
    tmp_path.joinpath("secret.csv").write_text("secret")
    (folder / "results" / "link.csv").symlink_to(tmp_path / "secret.csv")
    (folder / "away").symlink_to(tmp_path)
    return folder


def test_files_of_the_working_folder_are_matched_and_links_lead_nowhere(folder: Path) -> None:
    program = Program(executable="x", outputs=("results/*.csv", "**/secret.csv"))
    expected = {name: name for name in ("results/a.csv", "results/b.csv")}
    assert matched_paths(program, folder) == (expected, "")
    assert sorted(files_below(str(folder))) == [
        "results/a.csv", "results/b.csv", "results/c.txt", "stdout.0"
    ]  # fmt: skip
    inner = Program(executable="x", directory="results", outputs=("*.txt",))
    assert matched_paths(inner, folder) == ({"c.txt": "results/c.txt"}, "")


def test_a_courier_may_bring_only_what_matches() -> None:
    program = Program(executable="x", directory="sub", outputs=("*.csv",))
    assert is_matched(program, "sub/a.csv")
    for path in ("a.csv", "sub/a.txt", "sub/../../a.csv", "/sub/a.csv", ".koala/a.csv"):
        assert not is_matched(program, path)
