"""Descriptions as short JSON: nothing is lost."""

from __future__ import annotations

from dataclasses import replace

import msgspec
import pytest

from koala.core.model.job_spec import ComponentSpec, InputFile, JobSpec, JobType, StartType
from koala.core.model.values import FileName, Priority, SiteName, UserName
from koala.daemon.storage.spec_codec import SPEC_ROW, SpecReader, row_of_spec

TRUE = ComponentSpec(executable="/bin/true")
ALL = ComponentSpec(
    executable="/bin/sh",
    arguments=("-c", 'echo "ä"\n'),
    environment=(("A", ""), ("B", "1")),
    processors=4,
    licenses=(("matlab", 2),),
    is_exclusive=True,
    job_type=JobType.SINGLE,
    start_type=StartType.LOOSE,
    wall_time_s=1.5,
    site=SiteName("delft"),
    label="first",
    gpus=0,
)
SPECS = [
    JobSpec(components=(TRUE,)),
    JobSpec(components=(ALL, TRUE, ALL), owner=UserName("alice"), priority=Priority.HIGH),
    JobSpec(
        components=(TRUE, TRUE),
        rerun=False,
        quorum=1,
        input_file=InputFile(name=FileName("a"), size_bytes=0),
        more_files=(InputFile(name=FileName("b")),),
    ),
]


@pytest.mark.parametrize("spec", SPECS)
def test_a_description_is_the_same_after_its_short_form(spec: JobSpec) -> None:
    text = msgspec.json.encode(row_of_spec(spec))
    assert SpecReader().spec(msgspec.json.decode(text, type=SPEC_ROW)) == spec
    assert len(text) < len(msgspec.json.encode(spec)) / 2


def test_only_empty_fields_are_left_out() -> None:
    found = msgspec.json.decode(msgspec.json.encode(row_of_spec(JobSpec(components=(TRUE,)))))
    assert found == {
        "components": [
            {
                "executable": "/bin/true",
                "job_type": "multiple",
                "processors": 1,
                "start_type": "strict-barrier",
            }
        ],
        "priority": "low",
        "input_mode": "whole",
        "rerun": True,
        "redundancy": 1,
    }, "the default of these may change"


def test_alike_descriptions_in_sequence_are_one_object() -> None:
    reader = SpecReader()

    def read(spec: JobSpec) -> JobSpec:
        text = msgspec.json.encode(row_of_spec(spec))
        return reader.spec(msgspec.json.decode(text, type=SPEC_ROW))

    first, second = read(SPECS[2]), read(SPECS[2])
    assert first is second
    assert first.components[0] is first.components[1]
    owned = replace(SPECS[2], owner=UserName("alice"))
    assert read(owned) == owned, "its components are alike, but it is another job"
    other = read(SPECS[1])
    assert other == SPECS[1]
    assert read(SPECS[2]) == SPECS[2]
