"""Documents are true: the diagram is the code's, links lead on."""

import tomllib

from koala.core.model.job import TRANSITIONS
from koala.core.model.parameters import NAMES
from tests.documents.blocks import blocks, faults
from tests.tidy.documents import (
    DECISION_PARTS,
    DECISIONS_MAX,
    allowed,
    broken_links,
    decisions,
    documents,
    glossary,
    missing_tests,
    named_tests,
    parameter_rows,
    transitions,
)
from tests.tidy.sources import ROOT

GLOSSARY_MAX = 60


def test_the_table_of_parameters_has_all_with_their_bounds() -> None:
    text = (ROOT / "docs" / "policies.md").read_text(encoding="utf-8")
    rows = list(parameter_rows(text))
    assert sorted(name for names, _ in rows for name in names) == sorted(NAMES)
    for names, told in rows:
        assert told == "; ".join(dict.fromkeys(map(allowed, names))), names


def test_every_block_says_what_it_is_and_why_it_cannot_run() -> None:
    """`tests/documents` runs the blocks; docs/testing.md has the languages and marks."""
    assert [fault for path in documents() for one in blocks(path) for fault in faults(one)] == []


def test_the_state_diagram_is_the_transition_table() -> None:
    page = ROOT.joinpath("docs", "concepts", "how-it-works.md")
    drawn = transitions(page.read_text(encoding="utf-8"))
    assert drawn == {phase: set(followers) for phase, followers in TRANSITIONS.items()}


def test_links_between_documents_lead_somewhere() -> None:
    assert [link for path in documents() for link in broken_links(path)] == []


def test_tests_that_documents_name_are_there() -> None:
    assert [name for path in documents() for name in missing_tests(path)] == []


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


def test_decisions_are_few_and_have_context_choice_and_consequence() -> None:
    known = decisions()
    assert 0 < len(known) <= DECISIONS_MAX
    for heading, text in known:
        starts = [line.split(" ")[0] for line in text.splitlines() if line.startswith("**")]
        assert tuple(starts) == DECISION_PARTS, heading


def test_every_configuration_in_deploy_is_well_formed() -> None:
    for path in sorted(ROOT.joinpath("deploy").rglob("*.toml")):
        assert tomllib.loads(path.read_text(encoding="utf-8")), f"{path.name} is empty"
