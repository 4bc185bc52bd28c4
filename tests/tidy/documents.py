"""Reading what documents claim: state diagrams, tables, links."""

import re
from collections.abc import Iterator, Mapping
from pathlib import Path

from koala.core.model.parameters import BOUNDS, WORDS
from tests.tidy.sources import ROOT

DIAGRAM = re.compile(r"```mermaid\nstateDiagram-v2\n(.*?)```", re.DOTALL)
GROUP = re.compile(r"state (\w+) \{\n(.*?)\n\s*\}", re.DOTALL)
ARROW = re.compile(r"^\s*(\S+)\s+-->\s+(\w+)", re.MULTILINE)
LINK = re.compile(r"\]\(([^)#\s]*)(?:#([^)\s]*))?\)")
HEADING = re.compile(r"^#+ (.+)$", re.MULTILINE)
CODE = re.compile(r"^ *```.*?^ *```$", re.DOTALL | re.MULTILINE)


def documents() -> list[Path]:
    """All Markdown files of the project itself."""
    folders = [ROOT / "docs", ROOT / "deploy", ROOT / "examples"]
    return sorted(ROOT.glob("*.md")) + sorted(
        path for folder in folders for path in folder.rglob("*.md")
    )


def transitions(text: str) -> Mapping[str, set[str]]:
    """The arrows of the state diagram; one from a group holds for every state in it."""
    found = DIAGRAM.search(text)
    assert found is not None, "the document has no state diagram"
    groups = {
        name: {state for arrow in ARROW.findall(body) for state in arrow if state != "[*]"}
        for name, body in GROUP.findall(found.group(1))
    }
    arrows: dict[str, set[str]] = {}
    for source, target in ARROW.findall(found.group(1)):
        for state in sorted(groups.get(source, {source})):
            if state != "[*]":
                arrows.setdefault(state, set()).add(target)
                arrows.setdefault(target, set())
    return arrows


def allowed(parameter: str) -> str:
    """The values of a parameter, as the table of parameters has them."""
    if parameter in BOUNDS:
        low, high = BOUNDS[parameter]
        return f"{low:g} to {high:g}"
    words = WORDS.get(parameter, ("true", "false"))
    return ", ".join(f"`{word}`" for word in words)


def parameter_rows(text: str) -> Iterator[tuple[list[str], str]]:
    """Read the table of parameters in docs/policies.md: names and allowed values of each row."""
    section = text.partition("\n## Parameters\n")[2].partition("\n## ")[0]
    for line in section.splitlines():
        if line.startswith("| `"):
            cells = [cell.strip() for cell in line.split("|")]
            yield re.findall(r"`(\w+)`", cells[1]), cells[4]


def anchors(path: Path) -> set[str]:
    """Derive the anchors of a document from its headings, as GitHub and mkdocs do."""
    headings = HEADING.findall(CODE.sub("", path.read_text(encoding="utf-8")))
    return {re.sub(r"[^\w -]", "", heading.lower()).replace(" ", "-") for heading in headings}


def broken_links(path: Path) -> list[str]:
    """List links to missing files and missing headings; those to the web are not followed."""
    broken = []
    for name, anchor in LINK.findall(path.read_text(encoding="utf-8")):
        target = path.parent / name if name else path
        if "://" in name:
            continue
        if not target.exists():
            broken.append(f"{path.name}: {name}")
        elif anchor and target.suffix == ".md" and anchor not in anchors(target):
            broken.append(f"{path.name}: {name}#{anchor}")
    return broken


TERM = re.compile(r"^\| ([a-z][^|]*) \|.*\| `([^`]+)` \|$", re.MULTILINE)
DECISION_PARTS = ("**Context.**", "**Choice.**", "**Consequence.**")
DECISIONS_MAX = 100


def glossary() -> list[tuple[str, str]]:
    """Read the terms of the glossary, each with the module that it names."""
    text = ROOT.joinpath("docs", "glossary.md").read_text(encoding="utf-8")
    return [(term, module) for term, module in TERM.findall(text)]


def named_tests() -> list[str]:
    """List the test files and folders that docs/testing.md names, by their paths below tests/."""
    text = (ROOT / "docs" / "testing.md").read_text(encoding="utf-8")
    return [
        word.removeprefix("tests/")
        for word in re.findall(r"`([\w/]+(?:\.py)?)`", text)
        if word.startswith("tests/") or "/test_" in word
    ]


def missing_tests(path: Path) -> list[str]:
    """List the test files that a document names and that are nowhere."""
    folders = (ROOT / "tests", ROOT / "deploy")
    there = {file.name for folder in folders for file in folder.rglob("test_*.py")}
    named = re.findall(r"\btest_\w+\.py\b", path.read_text(encoding="utf-8"))
    return [f"{path.name}: {name}" for name in named if name not in there]


def decisions() -> list[tuple[str, str]]:
    """Read the decisions of all subjects: their headings, each with its text."""
    pages = sorted(set((ROOT / "docs" / "decisions").glob("*.md")))
    return [
        (heading, text)
        for page in pages
        if page.name != "README.md"
        for heading, _, text in (
            part.partition("\n") for part in page.read_text(encoding="utf-8").split("\n## ")[1:]
        )
    ]
