"""Components that stage files name an archive which their user has uploaded."""

from __future__ import annotations

from dataclasses import replace

import pytest

from koala.core.model.job_spec import ComponentSpec, JobSpec
from koala.core.model.values import UserName
from koala.daemon.clients.staging import contents_of, with_archives
from koala.daemon.files.uploads import Content
from koala.errors import SpecError

STAGED = f"{'a' * 64}:1000"
UPLOADED = Content(user="ann", checksum="a" * 64, size_bytes=1000)


def a_job(executable: str, *stage: str) -> JobSpec:
    plain = ComponentSpec(executable="/bin/true")
    component = ComponentSpec(executable=executable, stage=stage)
    return JobSpec(components=(plain, component), owner=UserName("ann"))


def staged(spec: JobSpec, **given: str) -> ComponentSpec:
    by_index = {name.removeprefix("c"): text for name, text in given.items()}
    return with_archives(spec, by_index, {UPLOADED: ""}).components[1]


@pytest.mark.parametrize(
    ("executable", "stage", "expected"),
    [
        ("./build/program", ("yes",), "program"),
        ("/home/ann/program", ("/home/ann/program", "data"), "program"),
        ("package/run.sh", ("package",), "package/run.sh"),
        ("python3", ("train.py",), "python3"),
    ],
)
def test_a_staged_executable_is_found_under_its_own_name(
    executable: str, stage: tuple[str, ...], expected: str
) -> None:
    found = staged(a_job(executable, *stage), c1=STAGED)
    assert (found.executable, found.archive) == (expected, STAGED)


def test_files_for_a_component_that_stages_nothing_are_refused() -> None:
    with pytest.raises(SpecError, match=r"component '0', which stages nothing .*those of 1\)"):
        staged(a_job("program", "yes"), c0=STAGED, c1=STAGED)
    with pytest.raises(SpecError, match=r"component '1', which stages nothing .*those of none\)"):
        staged(a_job("program"), c1=STAGED)


def test_an_archive_that_agents_would_refuse_is_refused_with_its_component() -> None:
    with pytest.raises(SpecError, match="component 1: entry 1 is a link"):
        with_archives(a_job("program", "yes"), {"1": STAGED}, {UPLOADED: "entry 1 is a link"})


def test_the_uploads_of_staging_components_are_looked_for_each_once() -> None:
    spec = a_job("program", "yes")
    twice = replace(spec, components=(*spec.components, spec.components[1]))
    assert list(contents_of(twice, {"1": STAGED, "2": STAGED})) == [UPLOADED]
    assert not list(contents_of(twice, {"0": STAGED, "7": STAGED, "1": "wrong"}))
