"""Reading the blocks of a document: what each holds, and what its mark says about running it.

A block is run, or read as the product reads it, unless a mark directly above its fence says
otherwise:

    <!-- grid -->            its page needs the grid of `koala up`, which the test has started
    <!-- file: NAME -->      it is saved under this name, for the blocks that follow
    <!-- continues -->       Python: a part of the program of the block before it
    <!-- exact -->           numbers of its output are the same each time
    <!-- long -->            it takes long: `make test-long` runs the page once more, with it
    <!-- not run: REASON --> it cannot run here
"""

import re
from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from textwrap import dedent

BLOCK = re.compile(
    r"^(?P<indent> *)```(?P<language>\w*)[^\n]*\n(?P<text>.*?)^(?P=indent)``` *$",
    re.DOTALL | re.MULTILINE,
)
MARK = re.compile(r" *<!-- (?P<name>[a-z ]+)(?:: (?P<value>[^>]+))? -->")

SHOWN = ("text", "mermaid")
"""Languages of blocks that are looked at: drawings, and formats of lines."""
COMMANDS = ("sh", "console", "python")
DATA = ("toml", "yaml", "json", "rsl")
MARKS = ("grid", "file", "continues", "exact", "long", "not run")


@dataclass(frozen=True, slots=True, kw_only=True)
class Block:
    """One fenced block of a document, and where its text starts."""

    place: str
    language: str
    text: str
    marks: dict[str, str]

    @property
    def reason(self) -> str | None:
        """Return why the block cannot run, if it says so."""
        return self.marks.get("not run")

    @property
    def is_long(self) -> bool:
        """Return whether only `make test-long` runs it."""
        return "long" in self.marks


@dataclass(frozen=True, slots=True, kw_only=True)
class Step:
    """Commands for a shell, and the lines that the document shows as their output."""

    commands: str
    shown: list[str]


def blocks(path: Path) -> Iterator[Block]:
    """Read the blocks of a document, with their marks."""
    text = path.read_text(encoding="utf-8")
    for found in BLOCK.finditer(text):
        line = text.count("\n", 0, found.start()) + 2
        yield Block(
            place=f"{path.name}:{line}",
            language=found["language"],
            text=dedent(found["text"]),
            marks=_marks(text[: found.start()].splitlines()),
        )


def programs(path: Path) -> Iterator[Block]:
    """Read the blocks of a document, each with those that continue it."""
    whole: Block | None = None
    for block in blocks(path):
        if "continues" in block.marks and whole is not None:
            whole = replace(whole, text=f"{whole.text}\n{block.text}")
            continue
        if whole is not None:
            yield whole
        whole = block
    if whole is not None:
        yield whole


def _marks(above: list[str]) -> dict[str, str]:
    marks = {}
    while above and (found := MARK.fullmatch(above[-1])):
        marks[found["name"]] = (found["value"] or "").strip()
        above.pop()
    return marks


def faults(block: Block) -> Iterator[str]:
    """Find what a block lacks: a language, a known mark, a reason in words."""
    if block.language not in (*SHOWN, *COMMANDS, *DATA):
        yield f"{block.place}: {block.language!r} is no language of a block"
    for mark in block.marks.keys() - set(MARKS):
        yield f"{block.place}: {mark!r} is no mark"
    if block.reason is not None and len(block.reason.split()) < 2:
        yield f"{block.place}: the mark gives no reason"
    if block.language in SHOWN and re.search(r"^\$ ", block.text, re.MULTILINE):
        yield f"{block.place}: a session in a block that is not run"
    if block.language == "console" and not block.text.startswith("$ "):
        yield f"{block.place}: a session begins with a command"


def steps(block: Block) -> list[Step]:
    """Split a session into its commands, each with what it prints; other blocks are one step."""
    if block.language != "console":
        return [Step(commands=block.text, shown=[])]
    found: list[Step] = []
    for line in block.text.splitlines():
        if line.startswith("$ "):
            found.append(Step(commands=line.removeprefix("$ "), shown=[]))
        elif found and line.startswith("> ") and not found[-1].shown:
            last = found.pop()
            found.append(Step(commands=f"{last.commands}\n{line.removeprefix('> ')}", shown=[]))
        elif line.strip():
            found[-1].shown.append(line)
    return found


SITES = re.compile(r"\b(vu|delft|leiden|amsterdam|utrecht)\b")


def shape(line: str) -> str:
    """Leave out what differs from run to run: numbers, sites and the width of columns."""
    return re.sub(r"\d+", "0", squeeze(SITES.sub("SITE", line)))


def squeeze(line: str) -> str:
    """Leave out the width of columns."""
    return " ".join(line.split())


def missing(shown: list[str], printed: str, *, exact: bool = False) -> list[str]:
    """List shown lines that were not printed; `...` stands for anything."""
    form = squeeze if exact else shape
    shapes = [form(line) for line in printed.splitlines()]
    absent = []
    for line in shown:
        wanted = re.compile(".*".join(re.escape(part) for part in form(line).split("...")))
        if not any(wanted.fullmatch(one) for one in shapes):
            absent.append(line)
    return absent
