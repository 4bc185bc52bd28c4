"""Jobs described in Python are the jobs of the other forms, checked before they are sent."""

from __future__ import annotations

from dataclasses import fields
from datetime import UTC, datetime, timedelta
from typing import Any

import numpy
import pytest

import koala
from koala import Component, Job
from koala.errors import SpecError
from koala.job_descriptions import read_job
from koala.job_descriptions.attribute_names import plain_name
from koala.job_descriptions.attributes import ATTRIBUTES, Scope, Treatment


def test_a_job_in_python_is_the_job_in_rsl() -> None:
    job = Job(
        priority="high",
        input_files={"ocean/2029": "40G"},
        deadline=datetime(2030, 1, 31, 12, tzinfo=UTC),
        max_hold=timedelta(minutes=5),
        hint=("io", 0.25),
        rerun=False,
        connect=[("left", "right", 7000)],
        components=[
            Component(
                label="left",
                site="delft",
                processors=4,
                executable="/bin/echo",
                arguments=["a b", 1, 0.5, "$(X)"],
                environment={"N": 4},
                wall_time="1h30m",
                memory="4G",
                output_files=["x.nc"],
                inputs={"north": "2G", "sea": 5},
            ),
            Component(label="right", executable="/bin/true", cpu_time=timedelta(seconds=90)),
        ],
    )
    expected = """
    +(priority=high)(inputFile=(ocean/2029 40G))(deadline="2030-01-31T12:00:00+00:00")(maxHold=5)
     (hint=io 0.25)(rerun=no)(connect=(left right 7000))
     (&(label=left)(site=delft)(count=4)(executable=/bin/echo)(arguments="a b" 1 0.5 "$(X)")
       (environment=(N 4))(maxWallTime=90)(minMemory=4096)(outputFile=x.nc)
       (inputs=(north 2G) (sea 5)))
     (&(label=right)(executable=/bin/true)(maxCpuTime=90s))"""
    assert read_job(job.text).spec == read_job(expected).spec
    assert job.check() == ()


def test_mistakes_are_found_before_anything_is_sent() -> None:
    job = Job(
        components=[Component(executable="a", processors=0), Component(executable="b", memory="x")]
    )
    wrong = r"^components\[0\]: processors: found '0'.*\ncomponents\[1\]: memory: found 'x'[^\n]*$"
    with pytest.raises(SpecError, match=wrong):
        job.check()


def test_a_warning_names_the_component_too() -> None:
    """No line of a text that its author never saw; live: what the daemon answers."""
    doubtful = Job(components=[Component(executable="a"), Component(executable="b", memory=4)])
    assert doubtful.check() == ("components[1]: memory 4 is 4 MB; GB are 4G",)


def test_a_value_of_a_wrong_type_is_refused_at_once_and_numbers_of_numpy_are_taken() -> None:
    with pytest.raises(
        SpecError, match=r"executable = \['x'\] \(expected str\)\nprocessors = '4' "
    ):
        Component(executable=["x"], processors="4")  # type: ignore[arg-type]
    with pytest.raises(SpecError, match=r"components = \['x'\] \(expected Sequence\[Component\]"):
        Job(components=["x"])  # type: ignore[list-item]
    four: Any = numpy.int64(4)
    numbers: Any = [numpy.float32(0.5), numpy.int32(3)]
    taken = Component(executable="a", processors=four, arguments=numbers, environment={"N": four})
    plain = Component(executable="a", processors=4, arguments=[0.5, 3], environment={"N": 4})
    assert Job(components=[taken]).text == Job(components=[plain]).text


def test_each_honoured_attribute_has_a_field() -> None:
    taken = (Treatment.HONOURED, Treatment.HANDED)
    named = {scope: set[str]() for scope in Scope}
    for row in ATTRIBUTES:
        if row.treatment in taken:
            named[row.scope].add(plain_name(row))
    only_in_rsl = {"max_time", "dry_run", "rsl_substitution"}
    assert {field.name for field in fields(Component)} == named[Scope.COMPONENT] - only_in_rsl
    assert {field.name for field in fields(Job)} - {"components"} == named[Scope.JOB]


def test_the_root_package_offers_only_its_public_names() -> None:
    assert koala.Client.__name__ == "Client"
    with pytest.raises(AttributeError, match="no attribute 'Clien'"):
        _ = koala.Clien
