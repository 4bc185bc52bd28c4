"""The table of attributes agrees with the reader of jobs and with the reference."""

from __future__ import annotations

import dataclasses
from pathlib import Path

from koala.core.model.job_spec import ComponentSpec
from koala.job_descriptions import read_job
from koala.job_descriptions.attribute_names import (
    ALIASES,
    KNOWN,
    PLAIN_NAMES,
    known_names_near,
    plain_name,
)
from koala.job_descriptions.attributes import ATTRIBUTES, Attribute, Scope, Treatment
from koala.job_descriptions.evaluation import canonical_name
from koala.job_descriptions.readers import JOB_READERS, SPECIAL

GLOBUS = """
    executable arguments directory environment stdin stdout stderr count hostCount host_count
    jobType job_type maxTime max_time maxWallTime max_wall_time maxCpuTime max_cpu_time minMemory
    min_memory maxMemory max_memory queue project dryRun dry_run gramMyJob gram_my_job save_state
    two_phase restart stdout_position stderr_position remote_io_url rsl_substitution
    rslSubstitution file_stage_in file_stage_in_shared file_stage_out file_clean_up scratch_dir
    gass_cache library_path expiration username loglevel logpattern savejobdescription
    proxy_timeout restartcontacts resourceManagerContact label subjobStartType subjobCommsType
    resourceManagerName stagein stageout filesize-stagein filesize-stageout bandwidth
"""
"""The names of GT 2.4, GRAM 5 and DUROC, as their manuals list them, and of KOALA's own."""

ROOT = Path(__file__).resolve().parents[2]


def _names(row: Attribute) -> str:
    plain = PLAIN_NAMES.get(row.name)
    others = [alias for alias, name in ALIASES.items() if name == row.name]
    return ", ".join(f"`{name}`" for name in (row.name, plain, *others) if name)


def markdown_table() -> str:
    """Format the table of docs/rsl.md."""
    rows = [
        ("attribute", "from", "of a", "values", "treatment", "meaning, or why"),
        ("---",) * 6,
        *(
            (_names(row), row.origin, row.scope, row.values, row.treatment, row.note)
            for row in ATTRIBUTES
        ),
    ]
    return "".join(f"| {' | '.join(row)} |\n" for row in rows)


def test_names_are_unique_after_canonicalisation() -> None:
    assert len(KNOWN) == len(ATTRIBUTES) + len(PLAIN_NAMES) + len(ALIASES)
    plain = [canonical_name(plain_name(row)) for row in ATTRIBUTES]
    assert [KNOWN[name] for name in plain] == list(ATTRIBUTES)


def test_each_honoured_attribute_is_read_and_no_other() -> None:
    read = (Treatment.HONOURED, Treatment.HANDED)
    honoured = {canonical_name(row.name) for row in ATTRIBUTES if row.treatment in read}
    of_components = {canonical_name(row.name) for row in ATTRIBUTES if row.read is not None}
    assert honoured == {*of_components, *JOB_READERS, *SPECIAL}
    fields = {field.name for field in dataclasses.fields(ComponentSpec)} - {"archive"}  # uploaded
    assert {row.field for row in ATTRIBUTES if row.field} == fields, "each can be asked for"
    of_job = {canonical_name(row.name) for row in ATTRIBUTES if row.scope is Scope.JOB}
    assert of_job == set(JOB_READERS)


def test_the_reference_shows_the_table() -> None:
    assert markdown_table() in (ROOT / "docs" / "rsl.md").read_text()


def test_the_examples_of_the_reference_are_jobs() -> None:
    blocks = (ROOT / "docs" / "rsl.md").read_text().split("```rsl\n")[1:]
    assert blocks
    for block in blocks:
        assert read_job(block.split("```")[0]).spec.components


def test_each_gram_and_duroc_attribute_is_in_the_table() -> None:
    assert [name for name in GLOBUS.split() if canonical_name(name) not in KNOWN] == []


def test_an_unknown_name_finds_its_neighbours() -> None:
    assert known_names_near("exe")[0] == "executable"
    assert known_names_near("max_waltime")[0] == "maxWallTime"
    assert known_names_near("CUONT")[0] == "count"
    assert known_names_near("qqqqqqq") == []
