"""Flexible jobs: a total in place of components, with bounds that are checked together."""

from __future__ import annotations

import pytest

from koala.client.description import Component, Job
from koala.core.model.job_spec import Split
from koala.errors import SpecError
from koala.job_descriptions import read_job, write_job

BOUNDS = "(totalCount=24)(minCount=4)(maxCount=10)(maxComponents=3)"


def read(relations: str) -> Split | None:
    return read_job(f"&(executable=a){relations}").spec.split


def test_the_four_kinds_of_requests_of_koala() -> None:
    fixed = "+(&(executable=a)(site=x)(count=4))(&(executable=a)(site=y)(count=4))"
    semi_fixed = "+(&(executable=a)(site=x)(count=4))(&(executable=a)(count=4))"
    non_fixed = "+(&(executable=a)(count=4))(&(executable=a)(count=4))"
    flexible = "&(executable=a)(totalCount=8)"
    specs = [read_job(text).spec for text in (fixed, semi_fixed, non_fixed, flexible)]
    sites = [[part.site for part in spec.components] for spec in specs]
    assert sites == [["x", "y"], ["x", None], [None, None], [None]]
    assert [spec.processors for spec in specs] == [8, 8, 8, 8]
    assert [spec.split is not None for spec in specs] == [False, False, False, True]


def test_a_total_is_as_free_as_nothing_bounds_it() -> None:
    assert read("(totalCount=24)") == Split(
        total=24, least=24, part_min=1, part_max=24, parts_max=24
    )


def test_bounds_and_the_nominal_components() -> None:
    spec = read_job(f"&(executable=a){BOUNDS}").spec
    assert spec.split == Split(total=24, least=24, part_min=4, part_max=10, parts_max=3)
    assert [part.processors for part in spec.components] == [8, 8, 8]


def test_a_malleable_job_may_start_with_its_smallest_component_or_as_it_says() -> None:
    split = read("(totalCount=24)(minCount=4)(malleable=yes)")
    assert split is not None
    assert (split.least, split.is_malleable) == (4, True)
    split = read("(totalCount=24)(malleable=yes)(minTotalCount=8)(cpusPerTask=4)")
    assert split is not None
    assert (split.least, split.part_min, split.step) == (8, 4, 4)


@pytest.mark.parametrize("relations", [BOUNDS, "(totalCount=9)(cpusPerTask=3)(malleable=yes)"])
def test_what_is_written_reads_back_also_once_it_is_split(relations: str) -> None:
    spec = read_job(f"&(executable=a){relations}").spec
    split = spec.shaped((3, 6))
    assert read_job(write_job(spec)).spec == read_job(write_job(split)).spec == spec


def test_the_same_in_yaml_and_in_python() -> None:
    job = Job(
        components=[Component(executable="a")],
        total_processors=24,
        min_processors=4,
        max_processors=10,
        max_components=3,
    )
    assert read_job(job.text).spec == read_job(f"&(executable=a){BOUNDS}").spec
    assert "total_processors: 24" in job.text
    plain = Job(components=[Component(executable="a")], malleable=False)
    assert read_job(plain.text).spec == read_job("&(executable=a)").spec
    with pytest.raises(SpecError, match="processors and total_processors contradict"):
        Job(components=[Component(executable="a", processors=1)], total_processors=2).check()


@pytest.mark.parametrize(
    ("relations", "words"),
    [
        ("(minCount=4)", "minCount needs totalCount, the processors of all components"),
        ("(malleable=yes)", "malleable needs totalCount"),
        ("(totalCount=24)(count=2)", "count and totalCount contradict"),
        ("(total_processors=24)(site=x)", "site and total_processors contradict"),
        ("(totalCount=24)(label=x)", "they are numbered"),
        ("(totalCount=24)(hostCount=2)", "hostCount and totalCount contradict"),
        ("(totalCount=24)(minCount=30)", "minCount is 30 (expected at most totalCount, 24)"),
        ("(totalCount=9)(minCount=5)(maxCount=4)", "minCount is 5 (expected at most maxCount, 4)"),
        (
            "(totalCount=24)(maxCount=5)(maxComponents=2)",
            "totalCount is 24 (expected a sum of at most 2 components of 1 to 5)",
        ),
        ("(totalCount=24)(minCount=10)(maxCount=11)", "components of 10 to 11"),
        ("(totalCount=23)(cpusPerTask=4)", "expected a multiple of cpusPerTask, 4"),
        ("(totalCount=9)(minTotalCount=4)", "expected malleable=yes beside it"),
        ("(totalCount=9)(malleable=yes)(minTotalCount=10)", "expected at most totalCount, 9"),
        ("(totalCount=9)(malleable=yes)(minCount=3)(minTotalCount=2)", "at least minCount, 3"),
        ("(totalCount=9)(malleable=yes)(jobType=mpi)", "expected jobType single or multiple"),
        ("(totalCount=9)(malleable=yes)(inputMode=chunk)(inputFile=(a 9))", "a file is divided"),
        ("(totalCount=9)(malleable=yes)(progress=sq)", "progress is compared from the start on"),
        ("(count=9)(resizeSignal=HUP)", "found 'HUP', expected usr1 or usr2"),
        ("(totalCount=9)(quorum=1)", "expected malleable and minTotalCount"),
        ("(totalCount=9)(subjobStartType=no-barrier)", "expected strict-barrier"),
        ("(totalCount=9)(connect=(all 1 5000))", "expected all, or 0, the first"),
        ("(totalCount=0)", "a whole number from 1"),
    ],
)
def test_bounds_that_contradict_are_refused_in_one_sentence(relations: str, words: str) -> None:
    with pytest.raises(SpecError) as caught:
        read(relations)
    assert words in caught.value.message
    assert not caught.value.others


def test_a_total_is_of_a_job_of_one_component() -> None:
    with pytest.raises(SpecError, match="expected one for all"):
        read_job("+(totalCount=8)(&(executable=a))(&(executable=b))")
