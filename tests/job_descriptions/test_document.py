"""Job descriptions in YAML and JSON read as the same job as RSL, and convert without loss."""

from __future__ import annotations

import json
from dataclasses import replace
from functools import partial

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from koala.errors import SpecError
from koala.job_descriptions import (
    JobReading,
    evaluated_tree,
    read_job,
    unparse,
    write_document,
    write_job,
)
from koala.job_descriptions.attributes import ATTRIBUTES, Treatment
from koala.job_descriptions.document import DEPTH_MAX, NODES_MAX, is_document
from tests.job_descriptions.examples import WHOLE
from tests.job_descriptions.outcomes import outcome

YAML = """
# two programs on two sites
version: 1
priority: high
input_file: {ocean/2029: 40G}
connect: [[left, right, 7000]]
components:
  - label: left
    site: delft
    processors: 16
    executable: /opt/ocean/bin/ocean
    arguments: [--grid, fine, north sea, 08, yes]
    environment:
      OMP_NUM_THREADS: 4
      EMPTY: ""
    wall_time: 1h30m
    memory: 4G
    output_files: [ocean.nc, logs/ocean.txt]
  - {label: right, count: 8, executable: /opt/air/bin/air, maxWallTime: 90}
"""
RSL = """
+(priority=high)(inputFile=(ocean/2029 40G))(connect=(left right 7000))
 (&(label=left)(resourceManagerContact=delft)(count=16)(executable=/opt/ocean/bin/ocean)
   (arguments=--grid fine "north sea" 08 yes)(environment=(OMP_NUM_THREADS 4)(EMPTY ""))
   (maxWallTime=90)(minMemory=4096)(outputFile=ocean.nc logs/ocean.txt))
 (&(label=right)(count=8)(executable=/opt/air/bin/air)(maxWallTime=01:30:00))
"""


def test_yaml_json_and_rsl_describe_the_same_job() -> None:
    expected = read_job(RSL).spec
    assert read_job(YAML).spec == expected
    assert read_job(YAML.encode()).spec == expected
    as_json = write_document(evaluated_tree(YAML), as_json=True)
    assert json.loads(as_json)["components"][0]["environment"]["OMP_NUM_THREADS"] == 4
    assert read_job(as_json).spec == expected


@pytest.mark.parametrize("text", WHOLE)
def test_any_job_is_written_as_rsl_yaml_and_json_and_reads_back(text: str) -> None:
    spec = read_job(text, owner="ann").spec
    written = write_job(spec)
    assert read_job(written, owner="ann").spec == spec
    tree = evaluated_tree(written)
    for as_json in (False, True):
        document = write_document(tree, as_json=as_json)
        assert is_document(document)
        back = evaluated_tree(document)
        assert read_job(unparse(back), owner="ann").spec == spec
        assert write_document(back, as_json=as_json) == document


def test_every_attribute_is_written_and_read_back() -> None:
    read = (Treatment.HONOURED, Treatment.HANDED)
    of_reading = {"rsl_substitution", "dryRun"}  # what is submitted has none
    honoured = {row.name for row in ATTRIBUTES if row.treatment in read} - of_reading
    assert {name for name in honoured if f"({name}=" not in "".join(WHOLE)} == set()


def test_a_job_that_rsl_cannot_say_is_not_written() -> None:
    spec = read_job("&(executable=a)").spec
    component = spec.components[0]
    for wrong in (
        replace(component, executable=""),
        replace(component, arguments=("a\0b",)),
        replace(component, wall_time_s=90.5),
        replace(component, processors=0),
        replace(component, environment=(("A", "1"), ("A", "2"))),
    ):
        with pytest.raises(SpecError, match="cannot be written as RSL"):
            write_job(replace(spec, components=(wrong,)))
    with pytest.raises(SpecError, match="no components"):
        write_job(replace(spec, components=()))
    with pytest.raises(SpecError, match="progress"):
        write_job(replace(spec, progress="SQ"))


@pytest.mark.parametrize(
    ("text", "line", "column", "words"),
    [
        ("version: 2\nexecutable: a", 1, 10, "version: expected 1"),
        ("executable: a\nexecutable: b", 2, 1, "given twice"),
        ("executable: a\nwall_tme: 5", 2, 1, "did you mean wall_time?"),
        ("executable: a\ncount: 0x10", 2, 8, "found '0x10', expected a whole number"),
        (
            "executable: a\ntotal_processors:",
            2,
            1,
            "total_processors: found nothing, expected a value",
        ),
        ('{"executable": "a", "sites": null}', 1, 21, "sites: found nothing, expected a value"),
        ("components:\n- executable: ~", 2, 3, "executable: found nothing"),
        ("components: {a: 1}", 1, 13, "expected a list"),
        ("components: []", 1, 13, "a list of at least one"),
        ("components: [a]", 1, 14, "expected a mapping"),
        ("components:\n- count: 2", 2, 3, "has no executable"),
        ("executable: &x a", 1, 13, "anchors"),
        ("executable: !!str a", 1, 13, "anchors, aliases and tags"),
        ("executable: [", 1, 14, "invalid YAML or JSON"),
        ('{"executable": "a",}x', 1, 21, "invalid YAML or JSON"),
        ("executable: a\n--- \nexecutable: b", 3, 1, "second document"),
        ("executable: a\n? [b]\n: c", 2, 3, "as a name"),
        ("a: " + "[" * DEPTH_MAX + "]" * DEPTH_MAX, 1, 3 + DEPTH_MAX, "nested at most"),
    ],
)
def test_a_mistake_is_named_with_its_place(text: str, line: int, column: int, words: str) -> None:
    with pytest.raises(SpecError) as caught:
        read_job(text)
    assert words in caught.value.message
    assert caught.value.position is not None
    assert (caught.value.position.line, caught.value.position.column) == (line, column)


def test_deep_and_long_documents_are_refused_at_once() -> None:
    for text in ("a: " + "[" * 300_000, "a:\n" + "- " * 300_000, "a: [" + "1," * NODES_MAX + "]"):
        # A newer libyaml has a limit of its own, and reaches it while it looks ahead for a key.
        with pytest.raises(SpecError, match=r"nested at most|maximum nesting depth"):
            read_job(text)


def test_variables_are_part_of_rsl_only() -> None:
    with pytest.raises(SpecError, match="variables"):
        read_job("executable: a", {"X": "1"})
    assert read_job("executable: $(X)").spec.components[0].executable == "$(X)"


def test_all_mistakes_are_told_together_in_their_order() -> None:
    with pytest.raises(SpecError) as caught:
        read_job("+(&(executabel=a)(cuont=1)(maxWallTime=0))(&(executable=b)(rerun=x))(quorum=9)")
    lines = [line for line in str(caught.value).splitlines() if line.startswith("line 1, column")]
    told = [line.split(": ", 1)[1].split(",")[0] for line in lines]
    assert told == [
        "unknown attribute 'executabel'; did you mean executable?",
        "unknown attribute 'cuont'; did you mean count?",
        "this component has no executable",
        "maxWallTime: found '0'",
        "rerun: found 'x'",
    ]
    assert str(caught.value).count("^") == len(lines)


_PIECES = (
    *("{", "}", "[", "]", ":", ": ", "- ", "\n", "  ", '"', "'", "|", ">", "#", "&a", "*a", "!!"),
    *(
        "components",
        "executable",
        "a",
        "1",
        "null",
        ",",
        "\t",
        "\r",
        "é",
        "---",
        "?",
        "%",
        "\ud83d",
    ),
)


@given(text=st.lists(st.sampled_from(_PIECES), max_size=25).map("".join))
@example(text="components:\n- executable: a\n")
@example(text='{"executable": "\\ud83d\\ude00"}')
def test_whatever_the_text_the_answer_is_a_job_or_an_error(text: str) -> None:
    for form in ("executable: x\n" + text, "components:\n" + text, "{" + text):
        reading = outcome(partial(read_job, form))
        assert isinstance(reading, JobReading | SpecError)


@pytest.mark.parametrize(
    ("text", "seconds"),
    [
        ("90", 5400),
        ("1h30m", 5400),
        ("90s", 90),
        ("00:01:30", 90),
        ("1-00:00:00", 86_400),
        ("2D", 172_800),
    ],
)
def test_a_time_limit_is_minutes_or_a_duration(text: str, seconds: float) -> None:
    spec = read_job(f"&(executable=a)(maxWallTime={text})").spec
    assert spec.components[0].wall_time_s == seconds
    assert read_job(write_job(spec)).spec == spec


@pytest.mark.parametrize(
    ("text", "size_mb"), [("512", 512), ("512M", 512), ("4g", 4096), ("4GiB", 4096), ("2TB", 2**21)]
)
def test_memory_has_a_unit_or_is_in_mb(text: str, size_mb: int) -> None:
    component = read_job(f"&(executable=a)(memory={text})").spec.components[0]
    assert component.memory_min_mb == size_mb


def test_a_little_memory_without_a_unit_is_doubted() -> None:
    (warning,) = read_job("&(executable=a)(memory=4)").warnings
    assert warning.endswith(": memory 4 is 4 MB; GB are 4G")
    assert read_job("&(executable=a)(memory=4M)").warnings == ()
