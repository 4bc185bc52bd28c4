"""Nothing but its own files names a kind of batch system, so that others are added from outside."""

from __future__ import annotations

import pytest

from koala_agent.lrm.batch_system import BatchSystem, known_systems
from tests.tidy.kinds import names_kind, source_files
from tests.tidy.sources import ROOT

FILES_MAX = 4
"""Its module or folder, template, directives of scripts, and the table of entry points."""
REAL = [system for system in known_systems() if not system.is_emulated]


@pytest.mark.parametrize("system", REAL, ids=lambda system: system.kind)
def test_few_files_name_a_kind_of_batch_system(system: BatchSystem) -> None:
    named = {
        str((path.parent if path.parent.name == system.kind else path).relative_to(ROOT))
        for path in source_files()
        if names_kind(path.read_text(encoding="utf-8"), system)
    }
    assert len(named) <= FILES_MAX, named


@pytest.mark.parametrize("text", ["kind == '{}'", "# {}: as its daemons do", "{}_JOB", "x_{}"])
def test_a_kind_is_found_in_code_and_comments(text: str) -> None:
    for system in REAL:
        assert names_kind(text.format(system.kind), system)
        assert names_kind(text.format(system.title), system)
    assert not any(names_kind("koala on board of apbsd", system) for system in REAL)
