"""Documents are true: commands run, the diagram is the code's, links lead on."""

import os
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest

from koala.core.model.job import TRANSITIONS
from koala.core.model.parameters import NAMES
from tests.tidy.documents import (
    ShellBlock,
    allowed,
    broken_links,
    decisions,
    documents,
    glossary,
    marked_blocks,
    named_tests,
    parameter_rows,
    shell_blocks,
    transitions,
)
from tests.tidy.sources import ROOT

GLOSSARY_MAX = 60

COMMANDS = {"koala": "koala.cli.main", "koala-agent": "koala_agent.main"}


@pytest.mark.slow
@pytest.mark.parametrize("path", documents(), ids=lambda path: path.name)
def test_the_commands_of_a_document_run(path: Path, tmp_path: Path) -> None:
    for number, block in enumerate(shell_blocks(path)):
        folder = tmp_path / str(number)
        folder.mkdir()
        run_block(block, folder)


def test_a_command_that_fails_is_told(tmp_path: Path) -> None:
    page = tmp_path / "page.md"
    page.write_text("text\n\n<!-- runs -->\n```sh\ntrue\nfalse\n```\n", encoding="utf-8")
    (block,) = shell_blocks(page)
    assert block.place == "page.md:5"
    with pytest.raises(AssertionError, match=r"page\.md:5"):
        run_block(block, tmp_path)


def run_block(block: ShellBlock, cwd: Path) -> None:
    """A block runs by itself, in a folder that shows the examples as a clone does."""
    for folder in ("examples", "deploy"):
        cwd.joinpath(folder).symlink_to(ROOT / folder)
    run = subprocess.run(
        ["bash", "-euo", "pipefail", "-c", block.commands],
        cwd=cwd,
        env=environment(cwd / ".bin"),
        capture_output=True,
        text=True,
        timeout=300,
        check=False,
    )
    assert run.returncode == 0, f"{block.place}:\n{block.commands}\n{run.stdout}{run.stderr}"


def test_the_table_of_parameters_has_all_with_their_bounds() -> None:
    text = (ROOT / "docs" / "policies.md").read_text(encoding="utf-8")
    rows = list(parameter_rows(text))
    assert sorted(name for names, _ in rows for name in names) == sorted(NAMES)
    for names, told in rows:
        assert told == "; ".join(dict.fromkeys(map(allowed, names))), names


def test_every_mark_stands_directly_above_a_shell_block() -> None:
    wrong = [
        path.name for path in documents() if marked_blocks(path) != len(list(shell_blocks(path)))
    ]
    assert wrong == []


def test_the_state_diagram_is_the_transition_table() -> None:
    page = ROOT.joinpath("docs", "concepts", "how-it-works.md")
    drawn = transitions(page.read_text(encoding="utf-8"))
    assert drawn == {phase: set(followers) for phase, followers in TRANSITIONS.items()}


def test_an_arrow_from_a_group_holds_for_each_of_its_states() -> None:
    text = """```mermaid
stateDiagram-v2
    [*] --> A
    state Alive {
        A --> B
    }
    Alive --> End
```"""
    assert transitions(text) == {"A": {"B", "End"}, "B": {"End"}, "End": set()}


def test_links_between_documents_lead_somewhere() -> None:
    assert [link for path in documents() for link in broken_links(path)] == []


def test_a_broken_link_is_found(tmp_path: Path) -> None:
    page = tmp_path / "page.md"
    links = "[a](page.md) [b](gone.md#x) [c](https://example.org) [d](#the-end) [e](page.md#start)"
    page.write_text(f"# The end\n```sh\n# start\n```\n{links}\n", encoding="utf-8")
    assert broken_links(page) == ["page.md: gone.md", "page.md: page.md#start"]


def test_the_glossary_names_modules_that_are_there() -> None:
    rows = glossary()
    assert 40 < len(rows) <= GLOSSARY_MAX
    assert rows == sorted(rows, key=lambda row: row[0].lower())
    assert [module for _, module in rows if not (ROOT / module).is_file()] == []


def test_the_map_of_tests_names_what_is_there_and_every_folder_of_tests() -> None:
    tests, named = ROOT / "tests", named_tests()
    assert [name for name in named if not (tests / name).exists()] == []
    folders = {path.parent.relative_to(tests).as_posix() for path in tests.rglob("test_*.py")}
    known = {name for name in named if not name.endswith(".py")}
    assert {one for one in folders if not {one, one.partition("/")[0]} & known} == set()


def test_every_decision_stands_once_in_the_index_by_subject() -> None:
    numbered, indexed = decisions()
    assert sorted(indexed) == sorted(numbered)


def test_every_configuration_in_deploy_is_well_formed() -> None:
    for path in sorted(ROOT.joinpath("deploy").rglob("*.toml")):
        assert tomllib.loads(path.read_text(encoding="utf-8")), f"{path.name} is empty"


def environment(folder: Path) -> dict[str, str]:
    """An environment where `koala` is this source tree, whether it is installed or not."""
    folder.mkdir()
    for name, module in COMMANDS.items():
        program = folder / name
        program.write_text(
            f"#!{sys.executable}\nimport sys\nfrom {module} import main\nsys.exit(main())\n",
            encoding="utf-8",
        )
        program.chmod(0o755)
    path = os.pathsep.join([str(folder), str(Path(sys.executable).parent), os.environ["PATH"]])
    python_path = os.pathsep.join([str(ROOT), str(ROOT / "agents")])
    return {**os.environ, "PATH": path, "PYTHONPATH": python_path, "NO_COLOR": "1"}
