"""Places in the tree that name a kind of batch system."""

from __future__ import annotations

import re
import tomllib
from collections.abc import Iterator
from pathlib import Path

from koala.job_descriptions.scripts.reading import GROUP as DIRECTIVES
from koala_agent.lrm.batch_system import DEFAULT, GROUP, BatchSystem
from tests.tidy.sources import ROOT

NAMING = ("koala", "agents", "pyproject.toml")
ENDS = (".py", ".toml")
ACCOUNTING = ROOT / "koala" / "lab" / "twin"
"""Readers of accounting files, one for each form; no agent is in front of those."""


def modules_of_kinds() -> set[str]:
    """The modules that an entry point names for one kind of real batch system."""
    text = (ROOT / "pyproject.toml").read_text(encoding="utf-8")
    points = tomllib.loads(text)["project"]["entry-points"]
    named = [pair for group in (GROUP, DIRECTIVES) for pair in points[group].items()]
    return {value.partition(":")[0] for kind, value in named if kind != DEFAULT}


def source_files() -> Iterator[Path]:
    """The source files and templates of what is shipped, and the table of entry points."""
    for name in NAMING:
        top = ROOT / name
        paths = top.rglob("*") if top.is_dir() else [top]
        yield from (path for path in paths if path.suffix in ENDS and path.parent != ACCOUNTING)


def names_kind(text: str, system: BatchSystem) -> bool:
    """Test a text for the kind's word or title; names of its own modules are none, and neither are
    options such as --ignore-pbs."""
    title = system.title.replace(" ", "[ -]?")
    words = "|".join((re.escape(system.kind), title))
    return re.search(rf"(?<![a-zA-Z-])(?i:{words})(?![a-zA-Z]|_[a-z])", text) is not None
